"""What a filled prefill computes, against the naive one that goes row by row in fp64."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgefill import fill
from ridgefill.arms import ARM_NAMES, Arm, make_arm
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.fill import predictor, run_late
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.models.cache import RowCache
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import RowPlan, plan_rows
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import RandomRows
from ridgefill.splits import pop_split

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "prefill.py"))
SPLIT, TAIL = 3, 20
LENGTHS = [2, TAIL - 1, TAIL, TAIL + 1, 65, 257]
# fp32 against fp64 through six layers, relative to the largest value.
TOLERANCE = 1e-5

ARM_CASES = {
    "identity": Arm("identity", "identity", split=SPLIT, tail=TAIL),
    "ridgefill": Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL),
    "ridgefill mapped": Arm("ridgefill", "ridge", split=SPLIT, tail=TAIL, split_layer="mapped"),
    "no_fill": Arm("no_fill", "none", split=SPLIT, tail=TAIL),
    "pop_native": Arm("pop_native", "identity", split=4, tail=1),
    "random rows": Arm("r", "ridge", split=SPLIT, tail=TAIL, rows=RandomRows(0.1)),
    "attention rows": Arm("a", "ridge", split=5, tail=TAIL, rows=AttentionRows(0.1)),
    "longer tail": Arm("l", "ridge", split=SPLIT, tail=TAIL, longer=0.1),
    "matched tail": Arm("m", "none", split=SPLIT, tail=TAIL, matched=Arm("r", "ridge", split=SPLIT, tail=TAIL)),
}


@pytest.fixture(scope="module")
def truth(tiny, prompt):
    """``truth(tokens)``: the naive model and the layer inputs it finds, computed once per length."""
    with torch.inference_mode():
        naive, known = NAIVE["NaiveLlama"](tiny()), {}

    def find(tokens):
        if tokens not in known:
            known[tokens] = naive.run_exact(prompt(tokens)[0].tolist())
        return naive, known[tokens]

    return find


def close(found, expected):
    scale = float(expected.abs().max())
    return float((found.double() - expected).abs().max()) <= TOLERANCE * scale


def naive_predict(arm, maps):
    if arm.fill == "none":
        return None
    if arm.fill == "identity":
        return lambda layer, state: state
    return lambda layer, state: maps.weights[layer].double() @ state + maps.biases[layer].double()


@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("case", ARM_CASES)
def test_every_arm_equals_the_naive_prefill(adapter, geometry, prompt, random_maps, truth, case, tokens):
    """Outputs of every exact row, and every written row of every layer's cache, at its original position."""
    arm = ARM_CASES[case]
    maps = random_maps(arm.split)
    lower = run_lower(adapter, prompt(tokens), arm.split)
    plan = plan_rows(arm, Context.around(adapter, lower, 5), geometry)
    done = run_late(adapter, lower, plan, predictor(arm, {(arm.split, PLAIN): maps.predict}, adapter), arm)
    naive, inputs = truth(tokens)
    outputs, caches = naive.run_filled(
        inputs, arm.split, plan.exact.tolist(), naive_predict(arm, maps),
        true_split_layer=arm.split_layer == "exact",
    )  # fmt: skip
    assert close(done.hidden[0], torch.stack([outputs[row] for row in plan.exact.tolist()]))
    for layer, rows in caches.items():
        for place, store in enumerate((done.cache.keys, done.cache.values)):
            expected = torch.stack([rows[row][place] for row in sorted(rows)], dim=1)
            assert close(store[layer][0, :, sorted(rows)], expected)


@given(data=st.data())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_choice_of_exact_rows_equals_the_naive_prefill(adapter, prompt, random_maps, truth, data):
    """Property: whichever prefix rows are exact, and however rows are chunked, the result is the naive
    one.
    """
    chosen = data.draw(st.sets(st.integers(0, 32)), label="exact prefix rows")
    step = data.draw(st.integers(1, 40), label="rows at once")
    exact = sorted(chosen | {33, 34})
    filled = torch.tensor([row for row in range(35) if row not in exact], dtype=torch.int64)
    plan = RowPlan(filled, torch.tensor(exact), 2, 0, tuple(sorted(chosen)))
    maps, arm = random_maps(SPLIT), ARM_CASES["ridgefill mapped"]
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(fill, "ROWS_AT_ONCE", step)
        done = run_late(adapter, run_lower(adapter, prompt(35), SPLIT), plan, maps.predict, arm)
    naive, inputs = truth(35)
    outputs, _ = naive.run_filled(inputs, SPLIT, exact, naive_predict(arm, maps), true_split_layer=False)
    assert close(done.hidden[0], torch.stack([outputs[row] for row in exact]))


@pytest.mark.parametrize("step", [1, 7, 19])
def test_exact_rows_may_be_run_in_chunks(adapter, geometry, prompt, random_maps, monkeypatch, step):
    """Memory is bounded by running the exact rows piece by piece; no-fill arms too, where a chunk starts
    late.
    """
    for arm in (ARM_CASES["ridgefill"], ARM_CASES["no_fill"]):
        lower = run_lower(adapter, prompt(65), SPLIT)
        plan = plan_rows(arm, Context.around(adapter, lower, 0), geometry)
        predict = predictor(arm, {(SPLIT, PLAIN): random_maps(SPLIT).predict}, adapter)
        monkeypatch.setattr(fill, "ROWS_AT_ONCE", 1024)
        whole = run_late(adapter, lower, plan, predict, arm)
        monkeypatch.setattr(fill, "ROWS_AT_ONCE", step)
        pieces = run_late(adapter, lower, plan, predict, arm)
        assert close(pieces.hidden, whole.hidden.double())


def test_a_continuation_runs_in_full_over_the_filled_cache(adapter, geometry, prompt, random_maps, truth):
    """Rows after the prompt are exact rows of the naive prefill; the plan only covers the prompt."""
    for arm in (ARM_CASES["ridgefill"], ARM_CASES["no_fill"]):
        maps, tokens, after = random_maps(SPLIT), 50, 15
        exact = run_exact(adapter, prompt(65), keep=(SPLIT,), window=(0, 50))
        lower = exact.lower(SPLIT, tokens)
        plan = plan_rows(arm, Context.around(adapter, lower, 0), geometry)
        predict = predictor(arm, {(SPLIT, PLAIN): maps.predict}, adapter)
        done = run_late(adapter, lower, plan, predict, arm, continuation=after)
        rows = [*plan.exact.tolist(), *range(tokens, 65)]
        naive, inputs = truth(65)
        outputs, _ = naive.run_filled(inputs, SPLIT, rows, naive_predict(arm, maps), true_split_layer=True)
        assert close(done.hidden[0], torch.stack([outputs[row] for row in rows]))


def test_rows_that_were_never_written_never_leak(adapter, geometry, prompt):
    """Buffers start as NaN: unused capacity, and the prefix of a no-fill arm, stay NaN while outputs are
    finite.
    """
    lower = run_lower(adapter, prompt(65), SPLIT, capacity=90)
    for name in ("identity", "no_fill"):
        arm = ARM_CASES[name]
        plan = plan_rows(arm, Context.around(adapter, lower, 0), geometry)
        done = run_late(adapter, lower, plan, predictor(arm, {}, adapter), arm)
        assert bool(done.hidden.isfinite().all())
        for layer in range(adapter.layers):
            assert bool(done.cache.keys[layer][:, :, 65:].isnan().all())
            unwritten = done.cache.keys[layer][:, :, :45].isnan()
            assert bool(unwritten.all()) == (name == "no_fill" and layer >= SPLIT)


def test_a_forgotten_row_is_caught(adapter, prompt):
    """A plan that neither fills nor runs one prefix row ends in a NumericsError that names the arm."""
    exact = torch.arange(45, 65)
    filled = torch.tensor([row for row in range(45) if row != 17])
    plan = RowPlan(filled, exact, TAIL, 0, ())
    lower = run_lower(adapter, prompt(65), SPLIT)
    with pytest.raises(NumericsError, match="identity@3"):
        run_late(adapter, lower, plan, adapter.block_input, ARM_CASES["identity"])


def test_an_arm_that_writes_nothing_where_a_fill_was_planned_is_caught(adapter, geometry, prompt):
    """Planned filled rows without a prediction are a NumericsError, not a result."""
    lower = run_lower(adapter, prompt(65), SPLIT)
    plan = plan_rows(ARM_CASES["identity"], Context.around(adapter, lower, 0), geometry)
    with pytest.raises(NumericsError):
        run_late(adapter, lower, plan, None, ARM_CASES["identity"])


def test_reading_an_empty_layer_or_past_the_end_is_refused():
    """A cache says so instead of returning fewer rows; one row past the end would otherwise vanish
    silently.
    """
    cache = RowCache(2, 4)
    with pytest.raises(NumericsError, match="layer 1"):
        cache.visible(1, 0, 2)
    row = torch.ones(1, 1, 1, 3)
    cache.write(0, row, row, slice(4, 5))
    with pytest.raises(NumericsError, match="row 4"):
        cache.visible(0, 0, 5)


def test_without_a_fill_the_late_layers_see_only_the_tail(adapter, geometry, prompt):
    """Whatever the prefix states are, the result has the same bits; with a fill it does not."""
    lower = run_lower(adapter, prompt(65), SPLIT)
    state = lower.state.clone()
    state[:, :45] += 1.0
    for name, same in (("no_fill", True), ("identity", False)):
        arm = ARM_CASES[name]
        plan = plan_rows(arm, Context.around(adapter, lower, 0), geometry)
        before = run_late(adapter, lower, plan, predictor(arm, {}, adapter), arm).hidden
        after = run_late(adapter, replace(lower, state=state), plan, predictor(arm, {}, adapter), arm).hidden
        assert torch.equal(before, after) == same


def test_the_lower_layers_are_shared_and_left_as_they_were(adapter, geometry, prompt, random_maps):
    """All arms of a split read the same lower tensors, and none writes to them."""
    lower = run_lower(adapter, prompt(65), SPLIT)
    before = [lower.cache.keys[layer].clone() for layer in range(SPLIT)]
    for arm in (ARM_CASES["ridgefill"], ARM_CASES["no_fill"], ARM_CASES["random rows"]):
        plan = plan_rows(arm, Context.around(adapter, lower, 1), geometry)
        done = run_late(
            adapter, lower, plan, predictor(arm, {(SPLIT, PLAIN): random_maps(SPLIT).predict}, adapter), arm
        )
        assert all(done.cache.keys[layer] is lower.cache.keys[layer] for layer in range(SPLIT))
    assert all(torch.equal(lower.cache.keys[layer], before[layer]) for layer in range(SPLIT))


def test_filled_rows_cost_no_mask(adapter, geometry, prompt, monkeypatch):
    """Rows that are only written get no visibility mask, which would grow with filled rows x tokens."""
    arm = ARM_CASES["random rows"]
    lower = run_lower(adapter, prompt(65), SPLIT)
    plan = plan_rows(arm, Context.around(adapter, lower, 1), geometry)
    seen = []
    write = type(adapter).write_filled
    monkeypatch.setattr(
        type(adapter),
        "write_filled",
        lambda self, layer, x, rows, cache: (seen.append(rows), write(self, layer, x, rows, cache)),
    )
    run_late(adapter, lower, plan, adapter.block_input, replace(arm, fill="identity"))
    assert seen
    assert all(mask is None for rows in seen for mask in rows.mask.values())


def test_missing_maps_are_named(adapter):
    """An arm whose split was not fitted says which splits were."""
    low = RidgeOptions(rank=4)
    fitted = {(2, PLAIN): adapter.block_input, (4, PLAIN): adapter.block_input, (3, low): adapter.block_input}
    with pytest.raises(ConfigError, match=r"needs maps for split 3; fitted are: 2, 4, 3-rank4"):
        predictor(ARM_CASES["ridgefill"], fitted, adapter)
    other = replace(ARM_CASES["ridgefill"], split=4, maps=low)
    with pytest.raises(ConfigError, match=r"needs maps-rank4 for split 4"):
        predictor(other, fitted, adapter)
    with pytest.raises(ConfigError, match="none"):
        predictor(ARM_CASES["ridgefill"], {}, adapter)


def test_arms_take_an_experiments_settings_and_refuse_others():
    """POP keeps its own split and tail; exact has neither; unknown names and splits outside the model are
    refused.
    """
    wanted = {"layers": 30, "split": 19, "tail": 256, "rows_share": 0.1}
    made = {name: make_arm(name, **wanted) for name in ARM_NAMES}
    assert made["exact"].split is None
    assert (made["pop_native"].split, made["pop_native"].tail, made["pop_native"].key) == (
        20,
        1,
        "pop_native@20",
    )
    assert (made["ridgefill"].split, made["ridgefill"].tail, made["ridgefill"].rows) == (19, 256, None)
    assert made["ridgefill_rows"].rows == AttentionRows(0.1, 64)
    assert made["no_fill_longer_tail"].matched == made["ridgefill"]
    assert [pop_split(layers) for layers in (32, 36)] == [22, 24]
    with pytest.raises(ConfigError, match=r"'magic' is not known.*ridgefill_rows"):
        make_arm("magic", **wanted)
    for split in (0, 30):
        with pytest.raises(ConfigError, match="expected 1 to 29"):
            make_arm("ridgefill", **{**wanted, "split": split})
