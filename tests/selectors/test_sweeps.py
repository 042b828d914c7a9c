"""Two sweeps are one sweep with the rows known beforehand, and the 27B selector is its rules one after the other."""

from dataclasses import dataclass, replace

import pytest
import torch

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, probe_macs, ranking_macs
from ridgefill.errors import ConfigError
from ridgefill.fill import first_sweep, run_late
from ridgefill.models.base import LINEAR
from ridgefill.passes import run_exact, run_lower
from ridgefill.rows import planned
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.context import Context, Work
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.lexical import LexicalNet
from ridgefill.selectors.probe import probe_rows
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.sweeps import two_sweeps
from ridgefill.selectors.tokens import SpecialIds

# With attention on both sides of the split and a layer below it that ranks rows.
SPLITS = {"llama": 5, "qwen3": 5, "gemma3": 3, "qwen3_5": 5, "qwen3_next": 5, "qwen4_exp": 4}
families = pytest.mark.parametrize("family", SPLITS)
# A map of all prefix rows multiplies other numbers of rows at a time than one of the filled rows.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Fixed:
    """A selector of rows known beforehand."""

    picked: tuple[int, ...]

    def rows(self, context):
        assert context.probe is not None
        return self.picked


def seen(adapter, ids, split, prefix, lower=None, **more):
    lower = lower or run_lower(adapter, ids, split)
    return Context(tuple(ids[0, : lower.tokens].tolist()), prefix, adapter=adapter, lower=lower, **more)


def ridge(split, split_layer="exact", fill="ridge"):
    return Arm("arm", fill, split=split, split_layer=split_layer)


@families
@pytest.mark.parametrize("split_layer", ["exact", "mapped"])
@pytest.mark.parametrize("picked", [(), (0, 1, 7, 30), tuple(range(60))])
def test_two_sweeps_are_one_sweep_with_the_same_rows(adapters, prompt, random_maps, error, family, split_layer, picked):
    """Outputs, and everything that late layers keep of rows that a later one may see."""
    adapter, split, ids = adapters(family), SPLITS[family], prompt(90)
    maps, context = random_maps(adapter, split), seen(adapter, ids, split, 60)
    done = two_sweeps(adapter, context, maps.predict, Fixed(picked), ridge(split, split_layer))
    once = run_late(
        adapter, context.lower, planned(90, 60, picked, adapter.device), maps.predict, ridge(split, split_layer)
    )
    assert done.plan.selected == picked
    assert error(done.filled.hidden, once.hidden) <= TOLERANCE
    first = min([*picked, 60])
    for layer in range(split, adapter.layers):
        if adapter.kinds[layer] == LINEAR:
            found, expected = (cache.state(layer).recurrent_states[0] for cache in (done.filled.cache, once.cache))
            assert error(found, expected) <= TOLERANCE
            continue
        begin = adapter.first_needed(layer, first)
        for found, expected in zip(
            done.filled.cache.visible(layer, begin, 90), once.cache.visible(layer, begin, 90), strict=True
        ):
            assert error(found, expected) <= TOLERANCE


@families
def test_every_layers_map_is_asked_once(adapters, prompt, random_maps, family):
    """In the first sweep for all prefix rows, or, by a recurrent layer, in the second for those that stay filled."""
    adapter, split, asked = adapters(family), SPLITS[family], []
    maps = random_maps(adapter, split)

    def predict(layer, state):
        asked.append((layer, state.shape[1]))
        return maps.predict(layer, state)

    two_sweeps(adapter, seen(adapter, prompt(90), split, 60), predict, Fixed((1, 2)), ridge(split, "mapped"))
    late = range(split, adapter.layers)
    assert sorted(asked) == [(layer, 58 if adapter.kinds[layer] == LINEAR else 60) for layer in late]


@families
def test_a_prompt_without_a_prefix_runs_exactly(adapters, prompt, random_maps, family):
    """Nothing is filled or probed, and the result is the exact pass, bit for bit."""
    adapter, split, ids = adapters(family), SPLITS[family], prompt(30)
    context = seen(adapter, ids, split, 0)
    probed = ProbedRows(ProbeBudget())
    done = two_sweeps(adapter, context, random_maps(adapter, split).predict, probed, ridge(split))
    assert torch.equal(done.filled.hidden, run_exact(adapter, ids).hidden)
    assert done.plan.selected == ()


@families
def test_rows_after_the_prompt_run_in_the_second_sweep(adapters, prompt, random_maps, error, family):
    """A continuation to be scored, as in a single sweep."""
    adapter, split, ids = adapters(family), SPLITS[family], prompt(100)
    lower = run_exact(adapter, ids, keep=(split,), window=(26, 90)).lower(split, 90)
    maps, picked = random_maps(adapter, split), (3, 40)
    context = seen(adapter, ids, split, 60, lower)
    done = two_sweeps(adapter, context, maps.predict, Fixed(picked), ridge(split), continuation=10)
    plan = planned(90, 60, picked, adapter.device)
    once = run_late(adapter, lower, plan, maps.predict, ridge(split), continuation=10)
    assert done.filled.hidden.shape[1] == 2 + 30 + 10
    assert error(done.filled.hidden, once.hidden) <= TOLERANCE


SPECIAL = SpecialIds(control=frozenset({5, 11}), unknown=frozenset({17}))


def spelled(adapter, ids, split, prefix, lower=None):
    """A prompt whose tokens are words of one letter, a full stop every eighth token, some capitalised, some digits."""
    texts = [f" {chr(97 + token % 26)}" for token in ids[0].tolist()]
    texts = [text.upper() if place % 5 == 0 else text for place, text in enumerate(texts)]
    texts = [". " if place % 8 == 7 else str(place % 10) if place % 9 == 4 else one for place, one in enumerate(texts)]
    # The prompt's end says again what rows 8 to 13 say.
    texts[-6:] = texts[8:14]
    offsets, start = [], 0
    for one in texts:
        offsets.append((start, start + len(one)))
        start += len(one)
    more = {"texts": tuple(texts), "text": "".join(texts), "offsets": tuple(offsets), "special": SPECIAL}
    more["frequencies"] = Frequencies((0,) * 97)
    return seen(adapter, ids, split, prefix, lower, **more)


@families
@pytest.mark.parametrize("factor", [0.05, 1.0])
@pytest.mark.parametrize("special", [True, False])
def test_probed_rows_are_the_budget_of_the_net_and_the_ranking_with_special_tokens_on_top(
    adapters, prompt, random_maps, family, factor, special
):
    """The rows caught by the net first, then the probe's best that are not exact already, as many as the budget."""
    adapter, split, ids = adapters(family), SPLITS[family], prompt(130)
    maps, context = random_maps(adapter, split), spelled(adapter, ids, split, 90)
    net, budget = LexicalNet(window=6), ProbeBudget(factor)
    selector = ProbedRows(budget, probing=20, lexical=net, special=special)
    done = two_sweeps(adapter, context, maps.predict, selector, ridge(split))
    control = {row for row in range(90) if ids[0, row] in (5, 11, 17)} if special else set()
    caught = [row for row in net.rows(context) if row not in control]
    assert caught
    count = budget.size(context)
    kept = caught[:count]
    cache = first_sweep(adapter, context.lower, 90, maps.predict, ridge(split))
    for row in probe_rows(adapter, context.lower, cache, 90, 20):
        if len(kept) < count and row not in kept and row not in control:
            kept.append(row)
    assert done.plan.selected == tuple(sorted({*kept, *control}))
    assert len(kept) == count


@families
@pytest.mark.parametrize("step", [16, 64])
def test_a_prompt_in_chunks_is_probed_as_in_one_pass(adapters, prompt, random_maps, in_chunks, family, step):
    """The same rows, whatever the chunks the lower layers ran in."""
    adapter, split, ids = adapters(family), SPLITS[family], prompt(130)
    maps, selector = random_maps(adapter, split), ProbedRows(ProbeBudget(0.3), probing=20)
    whole = spelled(adapter, ids, split, 90)
    parts = replace(whole, lower=in_chunks(adapter, ids, split, step))
    found, expected = (
        two_sweeps(adapter, one, maps.predict, selector, ridge(split)).plan.selected for one in (parts, whole)
    )
    assert found == expected


def test_what_cannot_be_swept_is_refused(adapters, prompt, random_maps):
    """An arm that fills nothing, a split outside the model, and a probe without a first sweep."""
    adapter = adapters("llama")
    maps, context = random_maps(adapter, 5), spelled(adapter, prompt(60), 5, 40)
    probed = ProbedRows(ProbeBudget())
    for fill in ("none", "exact"):
        with pytest.raises(ConfigError, match="fills no row"):
            two_sweeps(adapter, context, maps.predict, probed, ridge(5, fill=fill))
    beyond = replace(context, lower=replace(context.lower, split=6))
    with pytest.raises(ConfigError, match="split 6 is outside the model"):
        two_sweeps(adapter, beyond, maps.predict, probed, ridge(6))
    with pytest.raises(ConfigError, match="caches that a first sweep has filled"):
        probed.rows(context)


def test_probed_rows_cost_the_probe_and_the_budgets_ranking():
    """And nothing where there is no prefix."""
    geometry = Geometry(layers=6, hidden=32, q=40, kv=16, ff=64)
    ranking = ranking_macs(geometry, first=836, end=900, layers=(3,))
    cost = probe_macs(geometry, tokens=900, prefix=500, split=5) + ranking
    assert ProbedRows().macs(Work(geometry, 900, 500, 5)) == cost
    assert ProbedRows().macs(Work(geometry, 900, 0, 5)) == 0
