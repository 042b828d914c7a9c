"""Every arm of an experiment from one exact pass: as each by itself, at the cost of its parts."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.amend import Amendments
from ridgefill.arms import Arm
from ridgefill.corrections.rescale import Rescale
from ridgefill.corrections.state import StateCorrection
from ridgefill.cost import correction_macs, exact_macs, fill_macs, probe_macs, ranking_macs
from ridgefill.evaluation.runs import Fitted, kept_layers, run_arms
from ridgefill.fill import predictor, run_late
from ridgefill.fitted_names import correction_name
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.models.base import LINEAR
from ridgefill.passes import run_exact, run_lower, selector_layers
from ridgefill.rows import plan_rows, ranking_window
from ridgefill.selectors.sweeps import two_sweeps
from ridgefill.splices import Splice

CASES = runpy.run_path(str(Path(__file__).with_name("arm_cases.py")))
SPLITS, TOKENS, TAIL, WINDOW, case_of = (CASES[name] for name in ("SPLITS", "TOKENS", "TAIL", "WINDOW", "case_of"))
# fp32 in another order through the late layers, of the largest value: METHOD's own bound.
TOLERANCE = 1e-5


@pytest.fixture
def case(family):
    return case_of(family)


def pytest_generate_tests(metafunc):
    if "family" in metafunc.fixturenames and not list(metafunc.definition.iter_markers("parametrize")):
        metafunc.parametrize("family", SPLITS)


def amendments_of(arm, case):
    """What an arm does to filled rows, put together by hand."""
    return Amendments(
        Rescale(arm.rescale, arm.rescale_rows) if arm.rescale else None,
        StateCorrection(case.setup.fitted.deltas[correction_name(arm)]) if arm.state_correction else None,
        Splice(frozenset(arm.splice), case.exact) if arm.splice else None,
    )


def by_itself(case, arm):
    """The arm's plan and outcome from lower layers that ran for it alone."""
    adapter = case.adapter.filling(arm.fill, arm.exact_rows, case.setup.fitted.heads)
    lower = run_lower(adapter, torch.tensor([case.context.ids]), arm.split, window=TOKENS)
    context = replace(case.context, adapter=adapter, lower=lower)
    predict, amendments = predictor(arm, case.setup.fitted.maps, adapter), amendments_of(arm, case)
    if "probe" not in arm.needs:
        plan = plan_rows(arm, context, case.setup.geometry)
        return plan, run_late(adapter, lower, plan, predict, arm, amendments=amendments)
    tail = arm.tail + round(arm.longer * TOKENS)
    swept = two_sweeps(adapter, replace(context, prefix=TOKENS - tail), predict, arm.rows, arm, amendments=amendments)
    return swept.plan, swept.filled


def test_every_arm_from_one_exact_pass_is_the_arm_by_itself(case):
    """Last output to the bit, rows, tail, and what corrections measured."""
    assert len(case.runs) == len(case.setup.arms)
    for name, done in case.runs.items():
        if name == "exact":
            assert torch.equal(done.hidden, case.exact.hidden[:, -1:])
            continue
        plan, alone = by_itself(case, done.arm)
        assert torch.equal(done.hidden, alone.hidden[:, -1:]), name
        assert (done.selected, done.tail, done.filled_rows) == (plan.selected, plan.tail, len(plan.filled))
        assert (done.measured, done.target) == (alone.measured, plan.target)


def test_arms_that_differ_differ_in_what_they_give(case):
    """No parameter is lost on the way: outputs are all different but for arms that are meant to be the same here."""
    same = {
        "identity_rows_question_first": "identity_rows",
        "ridgefill_rows_question_first": "ridgefill_rows",
        "last": "ridgefill_longer_tail",
        # All that is filled, spliced.
        "splice_exact_keys_values": "exact",
        "splice_exact_all": "exact",
    }
    seen = {}
    for name, done in case.runs.items():
        key = tuple(done.hidden.flatten().tolist())
        first = seen.setdefault(key, name)
        assert first in (name, same.get(name)), (first, name)


def test_every_arms_cost_is_the_sum_of_its_parts(case):
    """Rows by the cost model, ranking and probing where rows are picked so, and what corrections measure."""
    geometry = case.setup.geometry
    for done in case.runs.values():
        arm = done.arm
        if arm.split is None:
            assert (done.macs.rows, done.macs.total) == (exact_macs(geometry, TOKENS),) * 2
            continue
        shape = {"mapped_split_layer": arm.split_layer == "mapped", "rank": arm.maps.rank, "fill": arm.fill}
        rows = fill_macs(
            geometry, tokens=TOKENS, split=arm.split, tail=done.tail, exact_rows=done.selected,
            swept="probe" in arm.needs, **shape,
        )  # fmt: skip
        correction = correction_macs(
            geometry, split=arm.split, prefix=TOKENS - done.tail, tail=done.tail,
            rescale_rows=arm.rescale_rows if arm.rescale else 0, state_correction=arm.state_correction, **shape,
        )  # fmt: skip
        assert (done.macs.rows, done.macs.correction) == (rows, correction), arm.name
        assert done.macs.selection == selection_macs(case, done), arm.name
        assert done.macs.total == sum((done.macs.rows, done.macs.selection, done.macs.correction))
        assert (correction > 0) == bool(arm.rescale or arm.state_correction)


def selection_macs(case, done):
    """By the kind of rows: nothing for drawing or reading text, the window's scores, the probe and its budget."""
    arm, geometry, prefix = done.arm, case.setup.geometry, TOKENS - done.tail
    kind = type(arm.rows).__name__
    layers = [layer for layer in selector_layers(case.adapter) if layer < arm.split]
    end = prefix if kind == "QuestionBlindRows" else TOKENS
    window = {"AttentionRows": WINDOW, "QuestionBlindRows": WINDOW, "ProbedRows": 64}.get(kind, 0)
    ranking = ranking_macs(geometry, first=end - window, end=end, layers=layers)
    probed = kind == "ProbedRows"
    return ranking + (probe_macs(geometry, tokens=TOKENS, prefix=prefix, split=arm.split) if probed else 0)


def test_controls_have_the_count_they_control_and_share_their_rows(case):
    """Random rows by the sample's seed: the same under both fills, others than the chosen ones."""
    runs = case.runs
    assert runs["identity_random_rows"].selected == runs["ridgefill_random_rows"].selected
    assert len(runs["ridgefill_random_rows"].selected) == len(runs["ridgefill_rows"].selected) == 15
    assert runs["ridgefill_random_rows"].selected != runs["ridgefill_rows"].selected
    assert runs["ridgefill_longer_tail"].tail == runs["identity_longer_tail"].tail == TAIL + 15
    assert runs["probe_later"].tail == runs["blind_later"].tail == TAIL + 15
    assert len(runs["ridgefill_probe_random"].selected) == len(runs["ridgefill_probe"].selected)
    assert runs["ridgefill_probe_random"].selected != runs["ridgefill_probe"].selected
    assert runs["last"].selected == tuple(range(TOKENS - TAIL - 15, TOKENS - TAIL))


def test_a_splice_of_all_that_is_filled_is_exact(error, case):
    """Keys and values on a model that only attends, states too on a hybrid; there keys and values are not enough."""
    hybrid = LINEAR in case.adapter.kinds
    exact = case.exact.hidden[:, -1:]
    whole = case.runs["splice_exact_all" if hybrid else "splice_exact_keys_values"]
    assert error(whole.hidden, exact) <= TOLERANCE
    for part in ("keys", "values", *(("keys_values", "states") if hybrid else ())):
        assert error(case.runs[f"splice_exact_{part}"].hidden, exact) > 100 * TOLERANCE
    assert error(case.runs["ridgefill"].hidden, exact) > 100 * TOLERANCE


def test_arms_after_a_continuation_are_the_arms_of_the_prompt(error, case):
    """Rows that follow the prompt in the same pass change neither which rows are picked nor what is measured."""
    more = torch.randint(0, 29, (1, 6), generator=torch.Generator().manual_seed(9))
    ids = torch.cat([torch.tensor([case.context.ids]), more], 1)
    window = ranking_window(case.setup.arms, TOKENS, WINDOW)
    exact = run_exact(case.adapter, ids, keep=kept_layers(case.setup), window=window)
    for done in run_arms(case.setup, exact, case.context, case.setup.arms):
        alone = case.runs[done.arm.name]
        assert done.hidden.shape[1] == 7
        assert error(done.hidden[:, :1], alone.hidden) <= TOLERANCE, done.arm.name
        assert (done.selected, done.tail, done.macs) == (alone.selected, alone.tail, alone.macs)
        for found, expected in zip(done.measured, alone.measured, strict=True):
            assert error(found.heads, expected.heads) <= TOLERANCE


def test_a_prompt_within_the_tail_runs_exactly_under_every_arm(case, error):
    """Nothing to fill, pick, match, measure or splice; arms with a shorter tail are left out."""
    ids = torch.tensor([case.context.ids[:TAIL]])
    told = case.context
    short = replace(
        told, ids=told.ids[:TAIL], texts=told.texts[:TAIL], offsets=told.offsets[:TAIL], question=(TAIL - 5, TAIL),
        template=(),
    )  # fmt: skip
    arms = [arm for arm in case.setup.arms if arm.split is None or arm.tail >= TAIL]
    exact = run_exact(case.adapter, ids, keep=kept_layers(case.setup), window=ranking_window(arms, TAIL))
    for done in run_arms(case.setup, exact, short, arms):
        assert torch.equal(done.hidden, exact.hidden[:, -1:]), done.arm.name
        assert (done.filled_rows, done.selected, done.measured, done.target) == (0, (), (), None)
        assert done.macs.total == exact_macs(case.setup.geometry, TAIL)


def test_what_is_kept_of_the_exact_pass_is_what_arms_start_from():
    """Every arm's split, and recurrent layers from the lowest split that splices states."""
    case = case_of("qwen3_5")
    splices = [arm for arm in case.setup.arms if "states" in arm.splice]
    assert kept_layers(replace(case.setup, arms=[Arm("exact", "exact")])) == ()
    assert kept_layers(replace(case.setup, arms=[replace(splices[0], split=5), Arm("i", "identity", split=2)])) == (
        2, 5, 6,
    )  # fmt: skip
    assert kept_layers(replace(case.setup, arms=[replace(splices[0], split=1)])) == (1, 2, 4, 5, 6)
    assert kept_layers(replace(case.setup, arms=[replace(splices[0], split=at) for at in (6, 4)])) == (4, 5, 6)


def test_maps_are_asked_for_by_split_and_options():
    """An arm with maps of its own never gets the paper's, nor those of another split."""
    case = case_of("llama")
    asked = []

    def maps(name):
        def predict(layer, state):
            asked.append(name)
            return case.adapter.block_input(layer, state)

        return predict

    fitted = Fitted({key: maps(key) for key in case.setup.fitted.maps})
    names = {"ridgefill": (4, PLAIN), "mapped_identity": (4, RidgeOptions("identity")), "deeper": (5, PLAIN)}
    for name, key in names.items():
        asked.clear()
        arm = replace(case.runs[name].arm, split_layer="mapped")
        list(run_arms(replace(case.setup, fitted=fitted), case.exact, case.context, [arm]))
        assert set(asked) == {key}
