"""Which rows run every layer: counts, the attention selector against the naive one, uniform random rows."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.arms import Arm
from ridgefill.cost import RANKING_LAYERS, Geometry, exact_macs, fill_macs, match_no_fill_tail, ranking_macs
from ridgefill.errors import ConfigError
from ridgefill.passes import run_lower
from ridgefill.rows import plan_macs, plan_rows, ranking_window
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context
from ridgefill.selectors.controls import LastRows, RandomRows
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.question import QuestionBlindRows
from ridgefill.selectors.special import SpecialTokens

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "prefill.py"))
TAIL = 20


SPENDING = {
    "nothing": {},
    "attention_rows": {"rows": AttentionRows(0.1)},
    "random_rows": {"rows": RandomRows(0.1)},
    "longer_tail": {"longer": 0.1},
}


def arm(extra="nothing", fill="ridge", split=5, tail=TAIL):
    return Arm("arm", fill, split=split, tail=tail, **SPENDING[extra])


@pytest.mark.parametrize(("split", "layers"), [(5, [3]), (8, [3, 7]), (7, [3])])
@pytest.mark.parametrize("tokens", [30, 63, 64, 65, 150])
def test_attention_rows_equal_the_naive_selector(tiny, adapt, prompt, tokens, split, layers):
    """Attention received in selector layers below the split, from the last 64 tokens, head by head and
    query by query.
    """
    adapter, ids = adapt(10), prompt(tokens)
    lower = run_lower(adapter, ids, split)
    prefix, count = tokens - TAIL, tokens // 10
    naive = NAIVE["NaiveLlama"](tiny(10))
    inputs = naive.run_exact(ids[0].tolist())
    expected, received = NAIVE["attention_rows"](naive, inputs, split, RANKING_LAYERS, prefix, 64, count)
    assert sorted(lower.window_inputs) == layers
    first, end = lower.window
    rows = adapter.rows(torch.arange(first, end))
    found = sum(adapter.attention_received(layer, lower.window_inputs[layer], rows, lower.cache) for layer in layers)
    torch.testing.assert_close(found.double(), torch.tensor(received).double(), rtol=1e-4, atol=1e-5)
    assert float(found.sum()) == pytest.approx(len(layers) * 4 * (end - first), rel=1e-5)
    context = replace(Context.around(adapter, lower), prefix=prefix)
    assert list(AttentionRows(count / tokens).rows(context)) == expected


@pytest.mark.parametrize("extra", ["attention_rows", "random_rows", "longer_tail"])
@pytest.mark.parametrize("tokens", [1, 19, 20, 21, 22, 65, 150])
def test_every_way_of_spending_spends_the_same_count(adapter, geometry, prompt, extra, tokens):
    """Ten per cent of the prompt's tokens, as far as the prefix reaches; every row is exact or filled,
    never both.
    """
    lower = run_lower(adapter, prompt(tokens), 5)
    plan = plan_rows(arm(extra), Context.around(adapter, lower, 3), geometry)
    plain = plan_rows(arm(), Context.around(adapter, lower, 3), geometry)
    extra_count = min(max(0, tokens - TAIL), round(tokens / 10))
    assert len(plan.exact) == len(plain.exact) + extra_count
    assert sorted([*plan.exact.tolist(), *plan.filled.tolist()]) == list(range(tokens))
    assert plan.exact.tolist()[-plan.tail :] == list(range(tokens - plan.tail, tokens))
    assert list(plan.selected) == plan.exact.tolist()[: len(plan.exact) - plan.tail]
    assert plan.start == 0


def test_identity_and_ridge_share_the_random_rows_of_a_sample(adapter, geometry, prompt):
    """The rows depend on the sample's seed only, and another sample has others."""
    lower = run_lower(adapter, prompt(150), 5)
    first, second = (Context.around(adapter, lower, seed) for seed in (2**62 + 1, 8))
    ridge, other = (plan_rows(arm("random_rows"), one, geometry) for one in (first, second))
    identity = plan_rows(arm("random_rows", "identity"), Context.around(adapter, lower, 2**62 + 1), geometry)
    assert ridge.selected == identity.selected != other.selected


@given(st.integers(1, 300), st.data())
def test_random_rows_are_distinct_ascending_and_repeatable(prefix, data):
    """Property: a sorted subset of the prefix of the wanted size, the same for the same seed."""
    tokens = data.draw(st.integers(prefix, 400))
    share, seed = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])), data.draw(st.integers(0, 2**63 - 1))
    context = Context((0,) * tokens, prefix, seed=seed)
    rows = RandomRows(share).rows(context)
    assert list(rows) == sorted(set(rows))
    assert len(rows) == min(prefix, round(share * tokens))
    assert set(rows) <= set(range(prefix))
    assert rows == RandomRows(share).rows(context)


def test_random_rows_are_uniform_over_the_prefix():
    """Over 4,000 seeds every row, the first and last included, is drawn as often as any other (5 sigma)."""
    draws, prefix, count = 4000, 20, 5
    hits = torch.zeros(prefix)
    for seed in range(draws):
        hits[list(RandomRows(0.25).rows(Context((0,) * prefix, prefix, seed=seed)))] += 1
    share = count / prefix
    sigma = (draws * share * (1 - share)) ** 0.5
    assert float((hits - draws * share).abs().max()) < 5 * sigma


def test_no_fill_hides_the_prefix_and_fills_nothing(adapter, geometry, prompt):
    """The late layers start at the tail; a prompt within the tail starts at its first row."""
    for tokens, start in ((65, 45), (20, 0), (7, 0)):
        plan = plan_rows(arm(fill="none"), Context.around(adapter, run_lower(adapter, prompt(tokens), 5), 0), geometry)
        assert (plan.start, plan.filled.numel(), plan.exact.tolist()) == (
            start,
            0,
            list(range(start, tokens)),
        )


@pytest.mark.parametrize("tokens", [19, 20, 21, 40, 150])
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_the_matched_tail_costs_what_the_fill_costs(adapter, prompt, tokens, split_layer):
    """No fill with the longer tail is within half a late row of ridgefill, or exact where the prompt is short; it is
    the tail that the cost model's own search finds.
    """
    shape = Geometry(layers=6, hidden=32, q=32, kv=16, ff=64)
    like = replace(arm(split=3), split_layer=split_layer)
    matched = replace(arm(fill="none", split=3), matched=like, split_layer=split_layer)
    context = Context.around(adapter, run_lower(adapter, prompt(tokens), 3))
    plan = plan_rows(matched, context, shape)
    if tokens <= TAIL:
        assert plan.exact.tolist() == list(range(tokens))
        assert plan_macs(matched, plan, context, shape).total == exact_macs(shape, tokens)
        return
    target = fill_macs(shape, tokens=tokens, split=3, tail=TAIL, mapped_split_layer=split_layer == "mapped")
    found = plan_macs(matched, plan, context, shape).total
    row = (shape.layers - 3) * (shape.row + 2 * shape.q * plan.tail)
    assert abs(found - target) <= row / 2
    assert plan.target == target
    assert plan.tail >= TAIL
    assert (plan.tail, found - target) == match_no_fill_tail(shape, tokens, 3, target)


@pytest.mark.parametrize("rows", [RandomRows(), LastRows(), AttentionRows()])
@pytest.mark.parametrize("like", ["attention_rows", "longer_tail"])
def test_a_matched_number_of_rows_costs_what_another_arm_costs(adapter, prompt, rows, like):
    """Within a row, however the rows are picked; by hand, no other number of rows comes closer."""
    shape = Geometry(layers=6, hidden=32, q=32, kv=16, ff=64)
    matched = replace(arm(split=5), rows=rows, matched=arm(like, split=5), name="matched")
    context = Context.around(adapter, run_lower(adapter, prompt(150), 5), seed=11)
    plan = plan_rows(matched, context, shape)

    def excess(count):
        alone = replace(arm(split=5), rows=replace(rows, share=count / 150))
        return abs(plan_macs(alone, plan_rows(alone, context, shape), context, shape).total - plan.target)

    assert excess(len(plan.selected)) == min(map(excess, range(131)))
    # Where picking rows alone is dearer than the other arm, none is left to pick.
    spent = plan_macs(matched, plan, context, shape)
    too_dear = plan.selected == () and spent.rows <= plan.target <= spent.total
    assert too_dear or excess(len(plan.selected)) <= shape.row + 2 * shape.q * 150


def test_matching_across_splits_or_through_a_probe_is_refused(adapter, geometry, prompt):
    """What is not there to compare: another split; rows known only once the caches are filled; no number of rows."""
    context = Context.around(adapter, run_lower(adapter, prompt(150), 5))
    with pytest.raises(ConfigError, match="expected both at one split"):
        plan_rows(replace(arm(split=5), matched=arm(split=3)), context, geometry)
    with pytest.raises(ConfigError, match="cannot be matched through a probe"):
        replace(arm(), matched=replace(arm(), rows=ProbedRows()))
    fixed = replace(arm(), rows=SpecialTokens(), matched=arm("longer_tail"))
    with pytest.raises(ConfigError, match="a rule without a share"):
        plan_rows(fixed, context, geometry)


def test_the_cost_of_a_plan_counts_its_own_rows(adapter, geometry, prompt):
    """Rows picked by the selector are charged where they are, and picking them; exact is charged in full."""
    context = Context.around(adapter, run_lower(adapter, prompt(65), 5), seed=1)
    ranking = ranking_macs(geometry, first=1, end=65, layers=(3,))
    for extra, selection in (("random_rows", 0), ("attention_rows", ranking)):
        rows = plan_rows(arm(extra), context, geometry)
        expected = fill_macs(
            geometry, tokens=65, split=5, tail=TAIL, exact_rows=rows.selected, mapped_split_layer=False
        )
        found = plan_macs(arm(extra), rows, context, geometry)
        assert (found.rows, found.selection, found.correction) == (expected, selection, 0)
    assert plan_macs(Arm("exact", "exact"), rows, context, geometry).total == exact_macs(geometry, 65)


def test_one_span_holds_all_that_the_arms_rank_by():
    """The last tokens, and those before the tail where an arm hides the question; never before the first row."""
    blind = replace(arm(tail=30), rows=QuestionBlindRows(window=40))
    assert ranking_window([arm()], 150) == (86, 150)
    assert ranking_window([arm("attention_rows")], 150, 16) == (86, 150)
    assert ranking_window([arm("random_rows")], 150, 16) == (134, 150)
    assert ranking_window([arm("attention_rows"), blind], 150) == (80, 150)
    assert ranking_window([blind], 25) == (0, 25)
