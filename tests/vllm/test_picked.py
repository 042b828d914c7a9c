"""Rows picked by their token run every layer before the tail as well, as the reference runs them by position."""

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from ridgefill.pretrained import RidgeFillMaps
from ridgefill.vllm_plugin.logs import read_log
from ridgefill.vllm_plugin.picked import picked_tokens

SPECIAL, DIGITS = (0, 1), tuple(range(5, 97, 9))
WORDS = {0: "<unk>", 1: "<s>", 2: "a"} | {token: f"n{token}" for token in DIGITS}
NEW, PROMPTS = 16, 24


@pytest.fixture(scope="session")
def tokenizer():
    """One word a token: two special ones, eleven with digits, letters alone otherwise."""
    words = {WORDS.get(token, "b" + chr(97 + token // 26) + chr(97 + token % 26)): token for token in range(97)}
    core = Tokenizer(WordLevel(words, unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=core, unk_token="<unk>", bos_token="<s>")


@pytest.fixture(scope="session")
def spoken(folders, tokenizer, tmp_path_factory):
    """The Llama model's folder with a tokenizer."""
    folder = tmp_path_factory.mktemp("spoken") / "model"
    folder.mkdir()
    for path in folders[0].iterdir():
        (folder / path.name).symlink_to(path)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def picking(engines, spoken):
    """``picking(rows, **arguments)``: an engine that picks rows by these rules."""

    def get(rows, **arguments):
        return engines.get(model=spoken, rows=rows, skip_tokenizer_init=False, **arguments)

    return get


@pytest.fixture(scope="session")
def prompts(prompt):
    """Of 60 to 300 tokens."""
    return [prompt(57 + (seed * 37) % 244, seed) for seed in range(PROMPTS)]


@pytest.mark.parametrize(
    ("rules", "picked"),
    [(["special"], SPECIAL), (["digits"], DIGITS), (["special", "digits"], (*SPECIAL, *DIGITS))],
)
def test_rules_pick_tokens_by_their_own_text(tokenizer, rules, picked):
    """A vocabulary larger than the tokenizer's has tokens that no rule knows."""
    flags = picked_tokens(rules, tokenizer, 128)
    assert flags.shape == (128,)
    assert flags.nonzero()[0].tolist() == list(picked)


def test_without_rules_no_tokenizer_is_asked():
    """None, so that a step costs nothing more."""
    assert picked_tokens([], None, 97) is None


def reference(tiny, spoken, folders, engines, prompts, picked):
    """Greedy tokens of ``maps.fill`` with the positions of ``picked`` tokens as exact rows, and rows filled in all."""
    stored = RidgeFillMaps.from_pretrained(folders[1])
    model = type(tiny).from_pretrained(spoken, dtype=torch.float32).eval()
    made, filled = [], 0
    for ids in prompts:
        before = max(0, len(ids) - engines.tail)
        rows = [place for place in range(before) if ids[place] in picked]
        tokens = torch.tensor([ids])
        options = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 0}
        with stored.fill(model, tail=engines.tail, min_filled=1, rows=rows) as done:
            out = model.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), **options)
        made.append(out[0, len(ids) :].tolist())
        filled += sum(one.filled for one in done)
    return made, filled


def test_greedy_tokens_are_the_references(picking, tiny, spoken, folders, engines, prompts, agreement):
    """At least 99 % of the steps and the same rows filled, whole and in chunks; without picking, other tokens."""
    wanted, rows = reference(tiny, spoken, folders, engines, prompts, {*SPECIAL, *DIGITS})
    asked = {"prompts": prompts, "new": NEW, "switches": [1] * PROMPTS}
    for budget in (4096, 100):
        answers, lines = picking(["special", "digits"]).act("generate", **asked, budget=budget)
        assert agreement([one["tokens"] for one in answers], wanted) >= 0.99
        assert read_log(lines).rows == rows
    plain, _ = engines.get().act("generate", **asked)
    assert agreement([one["tokens"] for one in plain], wanted) < 0.95


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_chunks_beside_others_in_half_precision_give_what_each_gives_alone(picking, prompts, dtype, apart, close):
    """Runs of a few rows go through the same kernels: almost the same log-probabilities up to the first other token."""
    engine = picking(["digits"], dtype=dtype)
    few, switches = prompts[:12], [place % 3 and 1 for place in range(12)]
    alone, _ = engine.act("generate", prompts=few, switches=switches, new=NEW, together=False)
    beside, _ = engine.act("staggered", prompts=few, switches=switches, new=NEW, every=2, budget=96)
    for one, other in zip(beside["answers"], alone, strict=True):
        assert apart(one, other) < close[dtype]


def test_a_prompt_of_picked_tokens_is_exact(picking, prompts):
    """Nothing of it is filled, so the answer is the exact one, bit for bit."""
    engine = picking(["digits"])
    digits = [DIGITS[place % len(DIGITS)] for place in range(200)]
    filled, lines = engine.act("generate", prompts=[digits], switches=[1], new=NEW)
    exact, _ = engine.act("generate", prompts=[digits], switches=[0], new=NEW)
    assert filled == exact
    assert read_log(lines).chunks == 0


def test_blocks_with_picked_rows_are_shared_by_prompts_that_begin_alike(picking, prompt):
    """Whatever follows, the rows before both tails are the same; the answer is that of a fresh engine."""
    served, fresh = picking(["digits"], enable_prefix_caching=True), picking(["digits"])
    long = prompt(300, 8)
    cached = []
    for asked in (long, long + prompt(200, 9), long[:200] + prompt(150, 10)):
        (answer,), _ = served.act("generate", prompts=[asked], switches=[1], new=NEW)
        (wanted,), _ = fresh.act("generate", prompts=[asked], switches=[1], new=NEW)
        assert answer["tokens"] == wanted["tokens"]
        cached.append(answer["cached"])
    assert cached == [0, 256, 192]


def test_a_server_without_a_tokenizer_cannot_pick(engines):
    """One sentence, at the start."""
    served = {"maps": str(engines.folders[1]), "rows": ["digits"]}
    assert "picks rows by the text of their tokens, and this server has no tokenizer" in engines.refused(served)
