"""Fill off: the plugin's engine gives the stock engine's tokens and log-probabilities, bit for bit."""

import itertools

import pytest

from ridgefill.vllm_plugin.logs import read_log

LENGTHS = (3, 17, 40, 55, 56, 57, 100, 180, 301, 512)
NEW = 8


WAYS = (
    {"act": "generate", "together": True},
    {"act": "generate", "together": False},
    {"act": "staggered", "every": 2},
)


# An engine is started for each type, so types are the outer loop.
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_requests_that_ask_for_no_filling_get_the_stock_engine(engines, prompt, dtype):
    """Together, alone, and arriving one after the other; with whole prompts and in chunks of 64."""
    prompts = [prompt(tokens) for tokens in LENGTHS]
    stock, ours = engines.get(filled=False, dtype=dtype), engines.get(dtype=dtype)
    for way, budget in itertools.product(WAYS, (4096, 64)):
        asked = {**way, "prompts": prompts, "new": NEW, "budget": budget}
        wanted, _ = stock.act(**asked, switches=[None] * len(prompts))
        answers, lines = ours.act(**asked, switches=[0] * len(prompts))
        assert answers == wanted, asked
        assert read_log(lines).chunks == 0
    assert read_log(ours.log.splitlines()).ready is not None
    assert read_log(stock.log.splitlines()).ready is None


def test_prompts_too_short_to_fill_get_the_stock_engine(engines, prompt):
    """They ask to be filled, and are not: 55 tokens are one fewer than tail and smallest bulk together."""
    prompts = [prompt(tokens) for tokens in (1, 20, 40, 55)]
    asked = {"prompts": prompts, "switches": [None] * 4, "new": NEW}
    stock, _ = engines.get(filled=False).act("generate", **asked)
    ours, lines = engines.get().act("generate", **asked)
    assert ours == stock
    assert read_log(lines).chunks == 0


def test_log_probabilities_of_the_prompt_come_from_an_exact_prefill(engines, prompt):
    """Filled rows have no output of the last layer, so such a request is not filled though it may ask for it."""
    asked = {"prompts": [prompt(200)], "switches": [1], "new": NEW, "prompt_logprobs": 1}
    stock, _ = engines.get(filled=False).act("generate", **asked)
    ours, lines = engines.get().act("generate", **asked)
    assert ours == stock
    assert read_log(lines).chunks == 0


def test_a_switch_that_means_nothing_is_exact_and_logged(engines, prompt):
    """A server must not end because of what a request says."""
    asked = {"prompts": [prompt(200)], "new": NEW}
    ours, lines = engines.get().act("generate", **asked, switches=["maybe"])
    exact, _ = engines.get().act("generate", **asked, switches=[0])
    assert ours == exact
    assert any("ridgefill='maybe', which is neither 1 nor 0; it runs exactly" in line for line in lines)


@pytest.mark.slow
def test_a_compiled_model_is_the_stock_engines_too(engines, prompt):
    """Without ``enforce_eager``: exact steps run the compiled model, bit for bit; filled ones run layer by layer and
    give the tokens of the eager engine.
    """
    asked = {"act": "generate", "prompts": [prompt(tokens) for tokens in LENGTHS], "new": NEW}
    count = len(LENGTHS)
    stock, compiled = engines.get(filled=False, enforce_eager=False), engines.get(enforce_eager=False)
    assert compiled.act(**asked, switches=[0] * count)[0] == stock.act(**asked, switches=[None] * count)[0]
    filled, eager = (engine.act(**asked, switches=[1] * count)[0] for engine in (compiled, engines.get()))
    assert [one["tokens"] for one in filled] == [one["tokens"] for one in eager]
