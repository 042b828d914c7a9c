"""Fill on: the engine computes what the reference does, in whole prompts, in chunks, and beside other requests."""

import pytest
import torch

from ridgefill.pretrained import RidgeFillMaps
from ridgefill.vllm_plugin.logs import read_log

NEW = 16
PROMPTS = 50


@pytest.fixture(scope="session")
def prompts(prompt):
    """Of 60 to 300 tokens; the shortest have one more row than must be before the tail."""
    return [prompt(57 + (seed * 37) % 244, seed) for seed in range(PROMPTS)]


@pytest.fixture(scope="session")
def reference(tiny, folders, prompts, engines):
    """``reference(dtype)``: greedy tokens of ``maps.fill`` around stock transformers, and whether they were filled."""
    stored = RidgeFillMaps.from_pretrained(folders[1])

    def answers(dtype):
        kind = getattr(torch, dtype)
        model = type(tiny).from_pretrained(folders[0], dtype=kind).eval()
        made = []
        for ids in prompts:
            tokens = torch.tensor([ids])
            with stored.fill(model, tail=engines.tail, min_filled=engines.least) as done:
                out = model.generate(
                    input_ids=tokens,
                    attention_mask=torch.ones_like(tokens),
                    max_new_tokens=NEW,
                    min_new_tokens=NEW,
                    do_sample=False,
                    pad_token_id=0,
                )
            made.append((out[0, len(ids) :].tolist(), sum(one.filled for one in done)))
        return made

    return answers


def test_greedy_tokens_are_the_references(engines, prompts, reference, agreement):
    """At least 99 % of the steps of fifty prompts, and as many rows were filled on both sides; and it is no accident:
    exact prefill gives other tokens.
    """
    asked = {"prompts": prompts, "new": NEW}
    filled, lines = engines.get().act("generate", **asked, switches=[None] * PROMPTS)
    exact, _ = engines.get().act("generate", **asked, switches=[0] * PROMPTS)
    wanted = reference("float32")
    ours = [one["tokens"] for one in filled]
    assert agreement(ours, [one for one, _ in wanted]) >= 0.99
    assert agreement(ours, [one["tokens"] for one in exact]) < 0.9
    assert read_log(lines).rows == sum(filled for _, filled in wanted)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_other_tokens_in_half_precision_are_near_ties(engines, prompts, reference, dtype, close):
    """Two engines round at different places, also where nothing is filled, and a random model's best tokens lie close
    together. So most steps with the same history agree, and where one does not, the engine gave the reference's token
    almost the same log-probability as its own.
    """
    asked = {"prompts": prompts, "switches": [1] * PROMPTS, "new": NEW}
    filled, _ = engines.get(dtype=dtype).act("generate", **asked)
    steps, gaps = 0, []
    for one, (tokens, _) in zip(filled, reference(dtype), strict=True):
        others = [place for place in range(NEW) if one["tokens"][place] != tokens[place]]
        steps += others[0] + 1 if others else NEW
        if others:
            best = dict(map(tuple, one["logprobs"][others[0]]))
            gaps.append(max(best.values()) - best.get(tokens[others[0]], float("-inf")))
    assert len(gaps) / steps < 0.1
    assert max(gaps) < close[dtype]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("budget", [64, 4096])
def test_true_inputs_in_the_maps_place_give_the_exact_answer(engines, prompt, dtype, budget, apart, close):
    """Every late layer but the split layer takes its filled rows' inputs from an exact run of the same prompt."""
    found, _ = engines.get(dtype=dtype).act("oracle", prompt=prompt(200), new=NEW, budget=budget)
    assert found["predicted"] == {"3": 0, "4": 160, "5": 160}
    assert found["filled"]["tokens"] == found["exact"]["tokens"]
    assert apart(found["filled"], found["exact"]) < close[dtype]


def test_the_split_layers_own_map_can_be_asked(engines, prompt, apart, close):
    """As ``split_layer: mapped`` sets it: three layers are predicted, and the answer is still the exact one."""
    found, _ = engines.get().act("oracle", prompt=prompt(200), new=NEW, mapped=True)
    assert found["predicted"] == {"3": 160, "4": 160, "5": 160}
    assert apart(found["filled"], found["exact"]) < close["float32"]


@pytest.fixture(scope="session")
def alone(engines, prompts):
    """``alone(switches, new)``: what the first prompts give one after the other, whole."""

    def answers(switches, new=NEW):
        few = prompts[: len(switches)]
        return engines.get().act("generate", prompts=few, switches=switches, new=new, together=False)[0]

    return answers


@pytest.mark.parametrize("budget", [33, 64, 100])
def test_chunks_give_what_whole_prompts_give(engines, prompts, alone, budget, apart, close):
    """Tails that begin inside a chunk, at its edge, and in a chunk without any."""
    asked = {"prompts": prompts[:12], "switches": [1] * 12, "new": NEW, "budget": budget}
    chunked, lines = engines.get().act("generate", **asked, together=False)
    for one, other in zip(chunked, alone([1] * 12), strict=True):
        assert one["tokens"] == other["tokens"]
        assert apart(one, other) < close["float32"]
    assert read_log(lines).chunks > 12


def test_filled_prefills_beside_decoding_requests_give_what_each_gives_alone(engines, prompts, alone, apart, close):
    """Filled and exact requests by turns, a new one every second step, in steps of at most 96 rows."""
    switches = [place % 2 for place in range(12)]
    asked = {"prompts": prompts[:12], "switches": switches, "new": NEW, "every": 2, "budget": 96}
    beside, _ = engines.get().act("staggered", **asked)
    assert beside["steps"] < 12 * NEW, "requests must have overlapped"
    for one, other in zip(beside["answers"], alone(switches), strict=True):
        assert one["tokens"] == other["tokens"]
        assert apart(one, other) < close["float32"]


def test_requests_that_are_taken_away_leave_the_others_as_they_were(engines, prompts, alone):
    """One is aborted in the middle of its filled prefill, and its blocks are used again."""
    asked = {"prompts": prompts[:6], "switches": [1] * 6, "new": NEW, "every": 1, "abort": [2, 4], "budget": 64}
    left, _ = engines.get(num_gpu_blocks_override=40).act("staggered", **asked)
    assert left["answers"][2] is None
    for place, other in enumerate(alone([1] * 6)):
        if place != 2:
            assert left["answers"][place]["tokens"] == other["tokens"]


def test_requests_put_back_and_computed_again_keep_their_tail(engines, prompts, alone, apart, close):
    """Too few blocks for all: preempted ones start over, their own new tokens exact, their tail where it was."""
    asked = {"prompts": prompts[:6], "switches": [1] * 6, "new": 150, "every": 1, "budget": 256}
    tight, _ = engines.get(num_gpu_blocks_override=40).act("staggered", **asked)
    assert tight["preempted"], "nothing was preempted, so nothing was tested"
    for one, other in zip(tight["answers"], alone([1] * 6, 150), strict=True):
        assert one["tokens"] == other["tokens"]
        assert apart(one, other) < close["float32"]
