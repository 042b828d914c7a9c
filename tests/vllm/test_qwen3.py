"""Qwen3: the same fill with normed keys; off is the stock engine, on is the reference, and true inputs give exact."""

import pytest
import torch

from ridgefill.pretrained import RidgeFillMaps
from ridgefill.vllm_plugin.logs import read_log

NEW, PROMPTS = 16, 24


@pytest.fixture(scope="module")
def engine(engines, normed_folders):
    """``engine(**arguments)``: a running one of the Qwen3 model."""
    model, maps = normed_folders
    return lambda **arguments: engines.get(model=str(model), maps=str(maps), **arguments)


@pytest.fixture(scope="module")
def prompts(prompt):
    """Of 60 to 300 tokens."""
    return [prompt(57 + (seed * 37) % 244, seed) for seed in range(PROMPTS)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_requests_that_ask_for_no_filling_get_the_stock_engine(engine, prompts, dtype):
    """Tokens and log-probabilities, bit for bit, together and in chunks."""
    for budget in (4096, 64):
        asked = {"act": "generate", "prompts": prompts, "new": NEW, "budget": budget}
        wanted, _ = engine(filled=False, dtype=dtype).act(**asked, switches=[None] * PROMPTS)
        answers, lines = engine(dtype=dtype).act(**asked, switches=[0] * PROMPTS)
        assert answers == wanted
        assert read_log(lines).chunks == 0


def test_greedy_tokens_are_the_references(engine, engines, normed, normed_folders, prompts, agreement):
    """At least 99 % of the steps, in whole prompts and in chunks; exact prefill gives other tokens."""
    stored = RidgeFillMaps.from_pretrained(normed_folders[1])
    model = type(normed).from_pretrained(normed_folders[0], dtype=torch.float32).eval()
    wanted = []
    for ids in prompts:
        tokens = torch.tensor([ids])
        options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
        with stored.fill(model, tail=engines.tail, min_filled=engines.least):
            out = model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), **options)
        wanted.append(out[0, len(ids) :].tolist())
    for switch, budget, least, most in ((1, 4096, 0.99, 1.0), (1, 100, 0.99, 1.0), (0, 4096, 0.0, 0.9)):
        asked = {"prompts": prompts, "new": NEW, "switches": [switch] * PROMPTS, "budget": budget}
        answers, _ = engine().act("generate", **asked)
        ours = [one["tokens"] for one in answers]
        assert least <= agreement(ours, wanted) <= most, (switch, budget)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_true_inputs_in_the_maps_place_give_the_exact_answer(engine, prompt, dtype, apart, close):
    """So filled keys are normed and rotated as the layer's own."""
    found, _ = engine(dtype=dtype).act("oracle", prompt=prompt(200), new=NEW, budget=64)
    assert found["predicted"] == {"3": 0, "4": 160, "5": 160}
    assert found["filled"]["tokens"] == found["exact"]["tokens"]
    assert apart(found["filled"], found["exact"]) < close[dtype]
