"""Arms that are given what another arm costs: how close they come, on tiny models and by real ones' cost model."""

import runpy
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill import config
from ridgefill.arms import ArmSettings, arm_table
from ridgefill.cost import exact_macs
from ridgefill.evaluation.records import arm_rows
from ridgefill.rows import plan_macs, plan_rows
from ridgefill.selectors.context import Context

CASES = runpy.run_path(str(Path(__file__).with_name("arm_cases.py")))
SPLITS, TOKENS, case_of = (CASES[name] for name in ("SPLITS", "TOKENS", "case_of"))
ROOT = Path(__file__).parents[2]
MODELS = config.known_models(ROOT)


def one_more_row(geometry, late, tokens):
    """The most that one more row costs in the late layers: a recurrent layer's scan grows by whole chunks."""
    row = sum(geometry.layer(at).rest + geometry.layer(at).mlp + geometry.layer(at).pair * tokens for at in late)
    return row + sum(geometry.layer(at).scan.chunk for at in late if geometry.layer(at).scan is not None)


@pytest.mark.parametrize("family", SPLITS)
def test_matched_arms_cost_what_their_target_costs(family):
    """Within half a late row, and the target is that of the arm itself."""
    case = case_of(family)
    geometry = case.setup.geometry
    for name, like in (("no_fill_longer_tail", "ridgefill"), ("matched_blind", "ridgefill_question_blind_rows")):
        done = case.runs[name]
        assert done.target == case.runs[like].macs.total
        late = range(done.arm.split, case.adapter.layers)
        step = one_more_row(geometry, late, TOKENS)
        assert abs(done.macs.total - done.target) <= step / 2 + geometry.layer(0).writes * len(late)
        rows = arm_rows("ruler", "one", 5, [done], 7)
        assert (rows[0]["matched_to"], rows[0]["target_macs"]) == (like, done.target)
    assert case.runs["ridgefill"].target is None


@pytest.mark.parametrize("model", MODELS)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_no_fill_with_a_longer_tail_costs_what_the_fill_costs(model, data):
    """Property: within half a per cent of the target, over prompt lengths, tails and splits of every model.

    In a tiny hybrid one chunk of its scans is more than a per cent of all there is: half of it is as close as any tail.
    """
    sizes = config.load_model(model, ROOT)
    geometry = config.cost_geometry(sizes)
    tokens = data.draw(st.integers(1000, min(65_536, sizes.geometry.context)), label="tokens")
    tail = data.draw(st.integers(1, min(4096, tokens // 2)), label="tail")
    split = data.draw(st.integers(geometry.layers // 4, geometry.layers - 1), label="split")
    layer = data.draw(st.sampled_from(["exact", "mapped"]), label="split layer")
    arm = arm_table(ArmSettings(geometry.layers, split, tail, split_layer=layer))["no_fill_longer_tail"]
    context = Context((0,) * tokens, 0)
    plan = plan_rows(arm, context, geometry)
    spent = plan_macs(arm, plan, context, geometry)
    step = one_more_row(geometry, range(split, geometry.layers), tokens)
    assert abs(spent.total - plan.target) <= max(0.005 * plan.target, step / 2)
    assert tail <= plan.tail < tokens
    assert plan.target < exact_macs(geometry, tokens)
