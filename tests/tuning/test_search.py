"""Successive halving over a scorer whose truth is known: what is measured, how often, and what comes out."""

import random
from collections import Counter

import pytest

from ridgefill.errors import ConfigError
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.tuning.candidates import EXACT, Grid
from ridgefill.tuning.search import Plan, search

IDENTITY = RidgeOptions("identity")
PLAN = Plan(samples=16, documents=3)


def truth(candidate):
    """Retrieval grows with the split and with rows, and identity maps are bad."""
    value = 0.2 + 0.06 * (candidate.split - 10) + (0.1 if candidate.rows else 0.0)
    return min(1.0, value) * (0.5 if candidate.maps == IDENTITY else 1.0)


def share(candidate):
    return candidate.split / 25 + candidate.tail / 1000 + candidate.rows / 2


class Known:
    """Scores drawn around the truth, the same for a candidate and sample whenever they are asked for."""

    def __init__(self):
        self.asked, self.prepared, self.texts = Counter(), [], Counter()

    def prepare(self, candidates):
        self.prepared.append({one.key for one in candidates})
        return self

    def retrieve(self, index, candidates, exact):
        keys = {one.key: truth(one) for one in candidates} | ({EXACT: 0.95} if exact else {})
        assert {one.key for one in candidates} <= self.prepared[-1]
        self.asked.update((key, index) for key in keys)
        hard = random.Random(index).random()
        drawn = {key: random.Random(f"{key}/{index}").random() for key in keys}
        return {
            key: {"candidate": key, "suite": "ruler", "score": float(0.5 * hard + 0.5 * drawn[key] < value)}
            for key, value in keys.items()
        }

    def lose(self, index, candidates):
        self.texts[index] += 1
        rows = {
            one.key: {
                "suite": "documents",
                "candidate": one.key,
                "loss": 0.1 - truth(one) / 10,
                "key_loss": 1.0 - truth(one),
            }
            for one in candidates
        }
        return {EXACT: {"suite": "documents", "candidate": EXACT, "loss": 0.0, "key_loss": 0.0}} | rows


@pytest.fixture
def grid():
    return Grid((11, 13, 15, 17, 19), (32, 64, 128), (0.05, 0.1), (PLAIN, IDENTITY), lambda split: True)


def test_no_candidate_meets_a_sample_twice_and_few_meet_all(grid):
    """Every round adds samples to those that stay; the last one has them all, with exact, and every document once."""
    known = Known()
    found = search(known.prepare, grid, share, 0.75, PLAN)
    assert max(known.asked.values()) == 1
    assert set(known.texts) == {0, 1, 2}
    assert set(known.texts.values()) == {1}
    assert len(found.exact) == PLAN.samples
    assert [samples for _, samples in found.rounds] == [4, 8, 16]
    assert all(len(one.points) == PLAN.samples for one in found.finalists)
    samples_of = Counter(key for key, _ in known.asked)
    assert sum(count == PLAN.samples for count in samples_of.values()) <= 1 + len(found.trials) / 3
    assert len(found.rows) == sum(known.asked.values()) + 3 * (1 + len(found.finalists))


def test_a_search_finds_the_best_setting_that_the_budget_allows(grid):
    """Close to the best truth within the budget of everything that the grid can reach, in a part of the work."""
    known = Known()
    found = search(known.prepare, grid, share, 0.75, Plan(200, 3))
    reachable = [*grid.coarse(), *(other for one in grid.coarse() for other in grid.variations(one))]
    best = max(truth(one) for one in reachable if share(one) <= 0.75)
    assert found.chosen.share <= 0.75
    assert truth(found.chosen.candidate) >= best - 0.1
    assert found.chosen in found.finalists


def test_a_search_is_the_same_again(grid):
    """Same scorer, same grid: the same outcome to the last row."""
    assert search(Known().prepare, grid, share, 0.7, PLAN) == search(Known().prepare, grid, share, 0.7, PLAN)


def test_only_what_is_within_reach_of_the_budget_runs(grid):
    """A tenth past the budget is shown, no more; less than the cheapest is refused before anything is fitted."""
    known = Known()
    found = search(known.prepare, grid, share, 0.6, PLAN)
    assert max(one.share for one in found.trials.values()) <= 0.7
    untouched = Known()
    with pytest.raises(ConfigError, match="cheapest setting"):
        search(untouched.prepare, grid, share, 0.3, PLAN)
    assert untouched.prepared == []


def test_loss_on_all_tokens_decides_where_no_document_has_a_key_token(grid):
    """``key_loss`` stays None, and a recommendation is made all the same."""

    class Keyless(Known):
        def lose(self, index, candidates):
            return {key: row | {"key_loss": None} for key, row in super().lose(index, candidates).items()}

    found = search(Keyless().prepare, grid, share, 0.75, PLAN)
    assert found.chosen.key_loss is None
    assert found.chosen.loss_for_choice == found.chosen.loss
