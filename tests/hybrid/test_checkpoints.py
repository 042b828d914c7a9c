"""Checkpoints in ``data/models``, if any: small, loaded by transformers alone, retrieving where they say."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from ridgefill.hybrid.ablations import Ablation, exactly_right, held_out_episodes
from ridgefill.hybrid.network import RECORD
from ridgefill.hybrid.settings import Hybrid, known_hybrids, load_hybrid

ROOT = Path(__file__).parents[2]
FOLDERS = {name: ROOT / "data" / "models" / name for name in known_hybrids(ROOT)}
HERE = [name for name, folder in FOLDERS.items() if folder.is_dir()]
LARGEST = 8_000_000
# The tests' own prompts: not those that the record was measured on.
SEED = 77

pytestmark = pytest.mark.skipif(not HERE, reason="data/models holds no trained hybrid; train with `snakemake hybrids`")


@pytest.fixture(scope="module", params=HERE)
def checkpoint(request):
    """Folder, settings, and the model and tokenizer as anyone loads them."""
    folder = FOLDERS[request.param]
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return folder, load_hybrid(request.param, ROOT), network, AutoTokenizer.from_pretrained(folder)


def test_a_folder_is_small_and_was_trained_as_its_settings_say(checkpoint):
    """At most 8 MB, of the configured recipe to its last step, within an hour."""
    folder, hybrid, network, tokenizer = checkpoint
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LARGEST
    record = json.loads((folder / RECORD).read_text("utf-8"))
    assert Hybrid.model_validate(record["settings"]) == hybrid
    assert record["steps"] == hybrid.steps
    assert record["processor_minutes"] <= 60
    assert type(network).__name__ == "Qwen3_5ForCausalLM"
    assert len(tokenizer) == network.config.vocab_size


def recorded(folder, task, length):
    """Share of held-out prompts that the record of the training says are answered with nothing taken away."""
    found = json.loads((folder / RECORD).read_text("utf-8"))["right"]
    (one,) = [row for row in found if (row["gone"], row["task"], row["length"]) == ("nothing", task, length)]
    return one["right"] / one["prompts"]


@torch.no_grad()
def test_greedy_decoding_says_the_answer(checkpoint):
    """``generate`` of stock transformers from the text of a held-out prompt, four needles in 512 tokens."""
    folder, _, network, tokenizer = checkpoint
    right = 0
    for one in held_out_episodes("four keys", 512, 10, SEED):
        prompt = tokenizer(one.prompt, return_tensors="pt")
        made = network.generate(**prompt, max_new_tokens=6, do_sample=False)
        right += one.references[0] in tokenizer.decode(made[0, prompt.input_ids.shape[1] :])
    assert right >= 10 * recorded(folder, "four keys", 512) - 3  # so few prompts vary by that


def test_what_training_left_is_what_retrieves(checkpoint):
    """At 1,024 tokens most prompts are answered, and few or none without the part that forcing had to leave."""
    folder, hybrid, network, _ = checkpoint
    attention = set(hybrid.network.attention) - set(hybrid.forcing.attention)
    states = set(hybrid.network.states) - set(hybrid.forcing.states)
    episodes = held_out_episodes("four keys", 1024, 12, SEED)
    whole = sum(exactly_right(network, episodes, Ablation("nothing", (), ())))
    without = sum(exactly_right(network, episodes, Ablation("kept", tuple(attention), tuple(states))))
    assert whole >= 12 * recorded(folder, "four keys", 1024) - 4
    assert without <= 2
