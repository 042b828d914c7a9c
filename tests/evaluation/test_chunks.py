"""A prompt prefilled in chunks is the prompt prefilled in one pass, for every family and every arm that allows it."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.amend import Amendments
from ridgefill.arms import Arm, ArmSettings, arm_table
from ridgefill.corrections.rescale import Rescale
from ridgefill.corrections.state import StateCorrection, state_shape
from ridgefill.cost import Geometry
from ridgefill.errors import ConfigError
from ridgefill.evaluation.chunks import ChunkedFill, exact_chunks, filled_chunks, unchunked
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN
from ridgefill.models.base import LINEAR
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import plan_rows, planned
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import RandomRows

MADE = runpy.run_path(str(Path(__file__).with_name("timing_material.py")))
adapter_of, random_maps, prompt = MADE["adapter_of"], MADE["random_maps"], MADE["prompt"]
TOKENS, TAIL = 90, 20
# Sums over other numbers of rows at a time, in fp32: METHOD's own bound. Of these two, with eight layers whose states
# remember, stock's own fp32 logits are 7e-6 from its fp64 ones; two ways of summing may differ by some of those.
TOLERANCE, TOLERANCES = 1e-5, {"qwen3_5": 3e-5, "qwen3_next": 3e-5}
families = pytest.mark.parametrize("family", MADE["FAMILIES"])
# A chunk for all, one that ends at the prefix's end, some that straddle it, single rows.
chunks = pytest.mark.parametrize("chunk", [TOKENS, 35, 32, 7, 1])
HYBRIDS = {"qwen3_5": 3, "qwen3_next": 4, "qwen4_exp": 3}


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


def split_of(family):
    return MADE["SPLITS"].get(family, 3)


def error(found, expected):
    """Largest difference in units of the largest expected value."""
    return float((found.double() - expected.double()).abs().max() / expected.double().abs().max())


def last(steps):
    """The outcome of a chunked prefill, and how many chunks it took; all before the last say that more is to come."""
    done = list(steps)
    assert all(one is None for one in done[:-1])
    return done[-1], len(done)


def assert_same(adapter, found, whole):
    """The last output, and everything that the layers keep; rows that were never written are the same ones."""
    bound = TOLERANCES.get(adapter.fingerprint["family"], TOLERANCE)
    assert error(found.hidden, whole.hidden[:, -1:]) <= bound
    found, expected = found.cache, whole.cache
    for layer in range(adapter.layers):
        assert found.start[layer] == expected.start[layer]
        if adapter.kinds[layer] == LINEAR:
            ours, theirs = found.state(layer), expected.state(layer)
            for number, ready in theirs.is_recurrent_states_initialized.items():
                if ready:
                    assert error(ours.recurrent_states[number], theirs.recurrent_states[number]) <= bound
            continue
        for ours, theirs in ((found.keys, expected.keys), (found.values, expected.values)):
            assert torch.equal(ours[layer].isnan(), theirs[layer].isnan())
            assert error(ours[layer].nan_to_num(), theirs[layer].nan_to_num()) <= bound


def one_pass(adapter, ids, fill):
    lower = run_lower(adapter, ids, fill.split)
    return run_late(adapter, lower, fill.plan, fill.predict, fill.arm, amendments=fill.amendments)


def fill_of(family, arm, tokens=TOKENS, amendments=None):
    """The arm's fill of a prompt, its rows planned without a lower pass."""
    adapter = adapter_of(family)
    context = Context((0,) * tokens, 0, seed=4, adapter=adapter)
    geometry = Geometry(layers=adapter.layers, hidden=32, q=32, kv=16, ff=64)
    maps = {(arm.split, PLAIN): random_maps(adapter, arm.split).predict}
    plan = plan_rows(arm, context, geometry)
    return ChunkedFill(arm, plan, predictor(arm, maps, adapter), amendments or Amendments())


@families
@chunks
def test_exact_chunks_are_the_exact_pass(family, chunk):
    """Last output and cache, and as many chunks as fit."""
    adapter, ids = adapter_of(family), prompt(TOKENS)
    whole = run_exact(adapter, ids)
    done, count = last(exact_chunks(adapter, ids, chunk))
    assert count == -(-TOKENS // chunk)
    assert_same(adapter, done, whole)


@families
@chunks
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_a_filled_prefill_in_chunks_is_run_late(family, chunk, split_layer):
    """Last output, and everything that lower and late layers keep."""
    adapter, ids = adapter_of(family), prompt(TOKENS)
    fill = fill_of(family, Arm("ridgefill", "ridge", split_of(family), TAIL, split_layer=split_layer))
    whole = one_pass(adapter, ids, fill)
    done, _ = last(filled_chunks(adapter, ids, chunk, fill))
    assert_same(adapter, done, whole)


@families
@pytest.mark.parametrize("chunk", [32, 7])
@pytest.mark.parametrize(
    "arm",
    [
        Arm("identity", "identity", 3, TAIL),
        Arm("no_fill", "none", 3, TAIL),
        Arm("short", "ridge", 3, 1),
        Arm("rows", "ridge", 3, TAIL, rows=RandomRows(0.1)),
        Arm("longer", "ridge", 3, TAIL, longer=0.1),
        Arm("all_tail", "ridge", 3, TOKENS + 1),
    ],
    ids=lambda arm: arm.name,
)
def test_other_arms_in_chunks_are_run_late(family, chunk, arm):
    """Nothing written, a tail of one row, exact rows in the prefix, a tail of the whole prompt."""
    adapter, ids = adapter_of(family), prompt(TOKENS, 2)
    fill = fill_of(family, replace(arm, split=split_of(family)))
    whole = one_pass(adapter, ids, fill)
    done, _ = last(filled_chunks(adapter, ids, chunk, fill))
    assert_same(adapter, done, whole)


def test_a_matched_arm_is_planned_and_prefilled_in_chunks():
    """The longer tail that costs what the fill would needs nothing of the prompt but its length."""
    arm = arm_table(ArmSettings(layers=6, split=3, tail=TAIL))["no_fill_longer_tail"]
    adapter, ids, fill = adapter_of(), prompt(TOKENS), fill_of("llama", arm)
    assert TAIL < fill.plan.tail < TOKENS
    done, _ = last(filled_chunks(adapter, ids, 16, fill))
    assert_same(adapter, done, one_pass(adapter, ids, fill))


@families
@pytest.mark.parametrize("chunk", [70, 32])
def test_a_rescale_in_chunks_scales_the_rows_of_all_chunks(family, chunk):
    """Measured in the chunk where the tail begins; earlier rows are scaled then, and the test can fail."""
    adapter, ids, split = adapter_of(family), prompt(TOKENS), split_of(family)
    how = Amendments(rescale=Rescale(("key", "value"), 12))
    fill = fill_of(family, Arm("scaled", "ridge", split, TAIL, rescale=("key", "value"), rescale_rows=12), TOKENS, how)
    whole = one_pass(adapter, ids, fill)
    done, _ = last(filled_chunks(adapter, ids, chunk, fill))
    assert_same(adapter, done, whole)
    plain = one_pass(adapter, ids, replace(fill, amendments=Amendments()))
    assert error(plain.hidden[:, -1:], whole.hidden[:, -1:]) > 100 * TOLERANCE


@pytest.mark.parametrize("family", HYBRIDS)
@pytest.mark.parametrize("chunk", [35, 32, 7])
@pytest.mark.parametrize("rows", [None, RandomRows(0.1)])
def test_a_state_correction_in_chunks_is_added_once(family, chunk, rows):
    """What a chunk's end adds is taken back before the next; with exact rows in the prefix or none."""
    adapter, ids, split = adapter_of(family), prompt(TOKENS), HYBRIDS[family]
    generator = torch.Generator().manual_seed(5)
    late = [layer for layer in range(split, adapter.layers) if adapter.kinds[layer] == LINEAR]
    deltas = {layer: torch.randn(state_shape(adapter), generator=generator) for layer in late}
    how = Amendments(correction=StateCorrection(deltas))
    arm = Arm("corrected", "ridge", split, TAIL, rows=rows, state_correction=True)
    fill = fill_of(family, arm, TOKENS, how)
    whole = one_pass(adapter, ids, fill)
    done, _ = last(filled_chunks(adapter, ids, chunk, fill))
    assert_same(adapter, done, whole)
    plain = one_pass(adapter, ids, replace(fill, amendments=Amendments()))
    assert error(plain.hidden[:, -1:], whole.hidden[:, -1:]) > 100 * TOLERANCE


def test_arms_that_need_the_whole_prompt_first_are_refused_with_the_reason():
    """Rows by attention or a probe, splices, a rescale that exact prefix rows would have missed; no other arm."""
    adapter = adapter_of()
    table = arm_table(ArmSettings(layers=6, split=4, tail=TAIL))
    reasons = {name: unchunked(arm, adapter) for name, arm in table.items() if arm.split is not None}
    whole = {"ridgefill_rows", "ridgefill_question_blind_rows", "ridgefill_probe", "ridgefill_probe_random"}
    whole |= {"identity_rows", "identity_question_blind_rows"}
    whole |= {"identity_rows_question_first", "ridgefill_rows_question_first"}
    assert {name for name, reason in reasons.items() if reason and "by attention" in reason} == whole
    spliced = {name for name in table if name.startswith("splice_")}
    assert {name for name, reason in reasons.items() if reason and "splices" in reason} == spliced
    assert "unscaled" in unchunked(replace(table["scale_values_tail"], rows=RandomRows()), adapter)
    assert "by attention" in unchunked(replace(table["no_fill"], matched=table["ridgefill_rows"]), adapter)
    assert {name for name, reason in reasons.items() if reason} == whole | spliced


def test_a_refused_arm_does_not_begin():
    """The first chunk is not run: the refusal comes before it."""
    arm = arm_table(ArmSettings(layers=6, split=4, tail=TAIL))["ridgefill_rows"]
    fill = ChunkedFill(arm, planned(TOKENS, TOKENS - TAIL, ()), lambda _, state: state)
    with pytest.raises(ConfigError, match=r"ridgefill_rows@4 picks exact rows by attention.*cannot be prefilled"):
        next(filled_chunks(adapter_of(), prompt(TOKENS), 16, fill))


@pytest.mark.parametrize(("chunk", "there"), [(36, 2), (71, 1), (10, 10)])
def test_a_rescale_without_room_for_its_rows_is_refused(chunk, there):
    """The tail of 20 begins at row 70; its first chunk must hold the 12 rows that are measured."""
    how = Amendments(rescale=Rescale(("value",), 12))
    fill = fill_of("llama", Arm("scaled", "ridge", 3, TAIL, rescale=("value",), rescale_rows=12), TOKENS, how)
    with pytest.raises(ConfigError, match=f"on 12 tail rows, of which .* holds {there};"):
        next(filled_chunks(adapter_of(), prompt(TOKENS), chunk, fill))


def test_heads_that_mix_all_rows_are_refused():
    """A context over the rows before would begin anew in every chunk."""

    class Mixing:
        context = object()

    adapter = adapter_of()._with(Mixing())
    assert "mix all rows" in unchunked(Arm("kva", "kva", 3, TAIL), adapter)


@pytest.mark.parametrize("chunk", [0, -3])
def test_chunks_without_tokens_are_refused(chunk):
    """One sentence instead of an endless loop."""
    with pytest.raises(ConfigError, match=f"chunks of {chunk} tokens"):
        next(exact_chunks(adapter_of(), prompt(TOKENS), chunk))
