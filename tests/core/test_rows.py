"""Which rows run every layer: counts, the attention selector against the naive one, uniform random rows."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, exact_macs, fill_macs
from ridgefill.passes import SELECTOR_LAYERS, run_exact, run_lower
from ridgefill.rows import attention_rows, extra_rows, plan_macs, plan_rows, random_rows

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "prefill.py"))
TAIL = 20


def arm(extra="nothing", fill="ridge", split=5, share=0.1, tail=TAIL):
    return Arm("arm", fill, extra, split=split, tail=tail, rows_share=share)


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
    expected, received = NAIVE["attention_rows"](naive, inputs, split, SELECTOR_LAYERS, prefix, 64, count)
    assert sorted(lower.window_inputs) == layers
    first, end = lower.window
    rows = adapter.rows(torch.arange(first, end))
    found = sum(adapter.attention_received(layer, lower.window_inputs[layer], rows, lower.cache) for layer in layers)
    torch.testing.assert_close(found.double(), torch.tensor(received).double(), rtol=1e-4, atol=1e-5)
    assert float(found.sum()) == pytest.approx(len(layers) * 4 * (end - first), rel=1e-5)
    assert attention_rows(adapter, lower, prefix, count).tolist() == expected


def test_the_question_window_may_end_before_a_continuation(adapt, prompt):
    """Scored tokens after the prompt have no say: the rows are those of the prompt alone."""
    adapter, ids = adapt(), prompt(120)
    with_more = run_exact(adapter, ids, keep=(5,), window=(36, 100)).lower(5, 100)
    alone = run_lower(adapter, ids[:, :100], 5)
    assert attention_rows(adapter, with_more, 80, 12).tolist() == attention_rows(adapter, alone, 80, 12).tolist()


class Scripted:
    """An adapter that only knows how much attention each position received."""

    device = torch.device("cpu")

    def __init__(self, received):
        self.received = torch.tensor(received)

    def rows(self, positions, *, start=0):
        return None

    def attention_received(self, layer, x, rows, cache):
        return self.received


@given(data=st.data())
def test_ties_go_to_the_lower_position(adapter_free_lower, data):
    """Property: the selection is that of a sort by (-attention, position), with many equal values."""
    received = data.draw(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=4, max_size=40))
    prefix = data.draw(st.integers(1, len(received) - 1))
    count = data.draw(st.integers(1, prefix))
    lower = replace(adapter_free_lower, window=(len(received) - 1, len(received)))
    ranked = sorted(range(prefix), key=lambda position: (-received[position], position))
    assert attention_rows(Scripted(received), lower, prefix, count).tolist() == sorted(ranked[:count])


@pytest.fixture(scope="module")
def adapter_free_lower(adapt, prompt):
    with torch.inference_mode():
        return run_lower(adapt(), prompt(5), 5)


@pytest.mark.parametrize("extra", ["attention_rows", "random_rows", "longer_tail"])
@pytest.mark.parametrize("tokens", [1, 19, 20, 21, 22, 65, 150])
def test_every_way_of_spending_spends_the_same_count(adapter, geometry, prompt, extra, tokens):
    """Ten per cent of the prompt's tokens, as far as the prefix reaches; every row is exact or filled,
    never both.
    """
    lower = run_lower(adapter, prompt(tokens), 5)
    plan = plan_rows(arm(extra), adapter, lower, geometry, seed=3)
    plain = plan_rows(arm(), adapter, lower, geometry, seed=3)
    extra_count = min(max(0, tokens - TAIL), extra_rows(arm(extra), tokens))
    assert len(plan.exact) == len(plain.exact) + extra_count
    assert sorted([*plan.exact.tolist(), *plan.filled.tolist()]) == list(range(tokens))
    assert plan.exact.tolist()[-plan.tail :] == list(range(tokens - plan.tail, tokens))
    assert list(plan.selected) == plan.exact.tolist()[: len(plan.exact) - plan.tail]
    assert plan.start == 0


def test_identity_and_ridge_share_the_random_rows_of_a_sample(adapter, geometry, prompt):
    """The rows depend on the sample's seed only, and another sample has others."""
    lower = run_lower(adapter, prompt(150), 5)
    ridge, other = (plan_rows(arm("random_rows"), adapter, lower, geometry, seed=seed) for seed in (2**62 + 1, 8))
    identity = plan_rows(arm("random_rows", "identity"), adapter, lower, geometry, seed=2**62 + 1)
    assert ridge.selected == identity.selected != other.selected


@given(st.integers(1, 300), st.data())
def test_random_rows_are_distinct_ascending_and_repeatable(prefix, data):
    """Property: a sorted subset of the prefix of the wanted size, the same for the same seed."""
    count, seed = data.draw(st.integers(0, prefix)), data.draw(st.integers(0, 2**63 - 1))
    rows = random_rows(prefix, count, seed).tolist()
    assert rows == sorted(set(rows))
    assert len(rows) == count
    assert set(rows) <= set(range(prefix))
    assert rows == random_rows(prefix, count, seed).tolist()


def test_random_rows_are_uniform_over_the_prefix():
    """Over 4,000 seeds every row, the first and last included, is drawn as often as any other (5 sigma)."""
    draws, prefix, count = 4000, 20, 5
    hits = torch.zeros(prefix)
    for seed in range(draws):
        hits[random_rows(prefix, count, seed)] += 1
    share = count / prefix
    sigma = (draws * share * (1 - share)) ** 0.5
    assert float((hits - draws * share).abs().max()) < 5 * sigma


def test_no_fill_hides_the_prefix_and_fills_nothing(adapter, geometry, prompt):
    """The late layers start at the tail; a prompt within the tail starts at its first row."""
    for tokens, start in ((65, 45), (20, 0), (7, 0)):
        plan = plan_rows(arm(fill="none"), adapter, run_lower(adapter, prompt(tokens), 5), geometry, 0)
        assert (plan.start, plan.filled.numel(), plan.exact.tolist()) == (
            start,
            0,
            list(range(start, tokens)),
        )


@pytest.mark.parametrize("tokens", [19, 20, 21, 40, 150])
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
def test_the_matched_tail_costs_what_the_fill_costs(adapter, prompt, tokens, split_layer):
    """No fill with the longer tail is within half a late row of ridgefill, or exact where the prompt is
    short.
    """
    shape = Geometry(layers=6, hidden=32, q=32, kv=16, ff=64)
    matched = replace(arm("compute_matched_tail", "none", split=3, share=0.0), split_layer=split_layer)
    lower = run_lower(adapter, prompt(tokens), 3)
    plan = plan_rows(matched, adapter, lower, shape, 0)
    if tokens <= TAIL:
        assert plan.exact.tolist() == list(range(tokens))
        assert plan_macs(matched, plan, tokens, shape) == exact_macs(shape, tokens)
        return
    target = fill_macs(shape, tokens=tokens, split=3, tail=TAIL, mapped_split_layer=split_layer == "mapped")
    found = plan_macs(matched, plan, tokens, shape)
    row = (shape.layers - 3) * (shape.row + 2 * shape.q * plan.tail)
    assert abs(found - target) <= row / 2
    assert plan.tail >= TAIL


def test_the_cost_of_a_plan_counts_its_own_rows(adapter, geometry, prompt):
    """Rows picked by the selector are charged where they are; exact is charged in full."""
    lower = run_lower(adapter, prompt(65), 5)
    rows = plan_rows(arm("random_rows"), adapter, lower, geometry, seed=1)
    expected = fill_macs(geometry, tokens=65, split=5, tail=TAIL, exact_rows=rows.selected, mapped_split_layer=False)
    assert plan_macs(arm("random_rows"), rows, 65, geometry) == expected
    assert plan_macs(Arm("exact", "exact"), rows, 65, geometry) == exact_macs(geometry, 65)
