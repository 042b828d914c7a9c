"""Qwen3.5: late recurrent layers run over filled rows too, from predicted inputs; in bf16, as the engine has no other.

Its recurrent layers need heads of 128.
"""

import pytest
import torch
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from ridgefill.maps import RidgeMaps
from ridgefill.models.wrap import adapter_for
from ridgefill.pretrained import RidgeFillMaps
from ridgefill.vllm_plugin.logs import read_log

NEW, PROMPTS, TAIL = 16, 24, 8
LAYERS, SPLIT, HIDDEN = 8, 3, 64


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory):
    """Folders of a random model and of random maps: of its late layers 3 and 7 attend, 4 to 6 are recurrent."""
    torch.manual_seed(5)
    config = Qwen3_5TextConfig(
        num_hidden_layers=LAYERS,
        hidden_size=HIDDEN,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        vocab_size=97,
        max_position_embeddings=1024,
        initializer_range=0.2,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = Qwen3_5ForCausalLM(config).eval()
    generator = torch.Generator().manual_seed(3)
    for layer in model.model.layers:
        # Random states forget everything in a row or two, and random attention says little beside the stream.
        if hasattr(layer, "linear_attn"):
            layer.linear_attn.A_log.data = torch.empty(2).uniform_(0.002, 0.05, generator=generator).log()
            layer.linear_attn.out_proj.weight.data *= 3
        else:
            layer.self_attn.o_proj.weight.data *= 3
    late = range(SPLIT, LAYERS)
    # Far from the identity, which this model would answer alike for.
    weights = {layer: torch.randn(HIDDEN, HIDDEN, generator=generator) * HIDDEN**-0.5 for layer in late}
    biases = {layer: 0.2 * torch.randn(HIDDEN, generator=generator) for layer in late}
    maps = RidgeFillMaps(RidgeMaps(SPLIT, weights, biases), dict(adapter_for(model).fingerprint), {})
    folder = tmp_path_factory.mktemp("hybrid")
    model.save_pretrained(folder / "model")
    maps.save_pretrained(folder / "maps")
    return folder / "model", folder / "maps"


@pytest.fixture(scope="module")
def engine(engines, hybrid):
    """``engine(**arguments)``: a running one of this model."""
    model, maps = hybrid

    def get(**arguments):
        return engines.get(model=str(model), maps=str(maps), dtype="bfloat16", tail=TAIL, pictures=True, **arguments)

    return get


@pytest.fixture(scope="module")
def prompts(prompt):
    """Of 60 to 300 tokens."""
    return [prompt(57 + (seed * 37) % 244, seed) for seed in range(PROMPTS)]


def test_requests_that_ask_for_no_filling_get_the_stock_engine(engine, prompts):
    """Tokens and log-probabilities, bit for bit, together and in chunks."""
    for budget in (4096, 64):
        asked = {"act": "generate", "prompts": prompts, "new": NEW, "budget": budget}
        wanted, _ = engine(filled=False).act(**asked, switches=[None] * PROMPTS)
        answers, lines = engine().act(**asked, switches=[0] * PROMPTS)
        assert answers == wanted
        assert read_log(lines).chunks == 0


@pytest.fixture(scope="module")
def reference(hybrid, engines, prompts):
    """``reference(filled)``: log-probabilities of all tokens after each prompt by stock transformers in bf16, exact or
    with ``maps.fill`` around it; and how many rows were filled.
    """
    stored = RidgeFillMaps.from_pretrained(hybrid[1])
    model = Qwen3_5ForCausalLM.from_pretrained(hybrid[0], dtype=torch.bfloat16).eval()

    def answers(filled):
        made, rows = [], 0
        for ids in prompts:
            with (
                torch.inference_mode(),
                stored.fill(model, tail=TAIL, min_filled=engines.least if filled else 10**6) as done,
            ):
                out = model(torch.tensor([ids]), use_cache=True, logits_to_keep=1)
            made.append(torch.log_softmax(out.logits[0, -1].float(), -1))
            rows += sum(one.filled for one in done)
        return made, rows

    return answers


def distance(answers, wanted):
    """Mean difference of log-probabilities, over the best few tokens that an engine named first after each prompt."""
    told = [(row, token, value) for row, one in enumerate(answers) for token, value in one["logprobs"][0]]
    return sum(abs(value - float(wanted[row][token])) for row, token, value in told) / len(told)


def test_filled_prefills_are_the_references_as_far_as_exact_ones_are(engine, prompts, reference):
    """In bf16 two engines differ a little: filled ones no more than exact ones, and filled from exact far more."""
    (exact, _), (filled, rows) = reference(False), reference(True)
    asked = {"prompts": prompts, "new": 2}
    plain, _ = engine().act("generate", **asked, switches=[0] * PROMPTS)
    bound = 1.5 * distance(plain, exact)
    for budget in (4096, 100):
        answers, lines = engine().act("generate", **asked, switches=[1] * PROMPTS, budget=budget)
        assert read_log(lines).rows == rows
        assert distance(answers, filled) < bound
        assert distance(answers, exact) > 3 * bound


@pytest.mark.parametrize("budget", [64, 4096])
def test_true_inputs_in_the_maps_place_give_the_exact_answer(engine, prompt, budget, apart, close):
    """So convolutions and states pass through filled rows in their order, and keys are normed and rotated."""
    found, _ = engine().act("oracle", prompt=prompt(200), new=NEW, budget=budget)
    assert found["predicted"] == {"3": 0} | dict.fromkeys("4567", 200 - TAIL)
    assert found["filled"]["tokens"] == found["exact"]["tokens"]
    assert apart(found["filled"], found["exact"]) < close["bfloat16"]


def test_filled_prefills_beside_decoding_requests_give_what_each_gives_alone(engine, prompts, apart, close):
    """Filled and exact requests by turns, in steps of at most 96 rows, some taken back for want of blocks."""
    few, switches = prompts[:12], [place % 2 for place in range(12)]
    alone, _ = engine().act("generate", prompts=few, switches=switches, new=NEW, together=False)
    beside, _ = engine().act("staggered", prompts=few, switches=switches, new=NEW, every=2, budget=96)
    assert beside["steps"] < 12 * NEW, "requests must have overlapped"
    for one, other in zip(beside["answers"], alone, strict=True):
        assert apart(one, other) < close["bfloat16"]


def test_filled_blocks_are_given_to_filled_requests_only(engine, prompt, apart, close):
    """States at the end of a block are cached too: the same prompt filled, exact, and again, and one that goes on."""
    served, fresh = engine(enable_prefix_caching=True), engine()
    long, cached = prompt(1000, 8), []
    for asked, switch in ((long, 1), (long, 0), (long, 1), (long, 0), (long[:900] + prompt(90, 9), 1), (long[:900], 0)):
        (answer,), _ = served.act("generate", prompts=[asked], switches=[switch], new=NEW)
        (wanted,), _ = fresh.act("generate", prompts=[asked], switches=[switch], new=NEW)
        assert apart(answer, wanted) < close["bfloat16"]
        cached.append(answer["cached"])
    assert cached[:2] == [0, 0]
    assert min(cached[2:]) > 0
