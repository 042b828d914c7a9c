"""The front, who goes on, and the recommendation: properties for any points, and slow rules beside the fast ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import ConfigError
from ridgefill.tuning.front import Point, clearly_better, pareto, recommend, survivors, undominated

SAMPLES = st.integers(1, 6)
FEW = st.sampled_from([0.0, 25.0, 50.0, 100.0])


@st.composite
def fields(draw):
    """Points with their scores, losses and a budget that at least one of them keeps; many ties among them."""
    count, samples = draw(st.integers(1, 9)), draw(SAMPLES)
    points, scores, losses = [], {}, {}
    for number in range(count):
        key = f"c{number}"
        scores[key] = draw(st.lists(FEW, min_size=samples, max_size=samples))
        losses[key] = draw(st.sampled_from([-0.1, 0.0, 0.2, 0.5]))
        share = draw(st.sampled_from([0.5, 0.6, 0.7, 0.8]))
        points.append(Point(key, share, sum(scores[key]) / samples))
    budget = draw(st.sampled_from([0.5, 0.6, 0.75, 0.9]).filter(lambda b: any(p.share <= b for p in points)))
    return points, scores, losses, budget


@given(fields())
def test_the_front_is_what_comparing_all_pairs_leaves(naive, field):
    """Equal points all stay, and they come cheapest first."""
    points, *_ = field
    assert sorted(pareto(points), key=lambda one: (one.share, one.key)) == naive["front"](points)
    shares = [one.share for one in pareto(points)]
    assert shares == sorted(shares)


@given(fields(), st.randoms(use_true_random=False))
def test_no_rule_depends_on_the_order_of_points(field, random):
    """The same front, survivors and recommendation from any order."""
    points, scores, losses, budget = field
    mixed = random.sample(points, len(points))
    assert pareto(points) == pareto(mixed)
    assert survivors(points, scores, 3, budget) == survivors(mixed, scores, 3, budget)
    assert recommend(points, scores, losses, budget) == recommend(mixed, scores, losses, budget)


@given(fields())
def test_the_recommendation_is_what_filters_in_turn_leave(naive, field):
    """Within the budget; not far from the best retrieval; least loss; cheapest; first by name."""
    points, scores, losses, budget = field
    assert recommend(points, scores, losses, budget) == naive["recommended"](points, scores, losses, budget)


@given(fields())
def test_the_recommendation_keeps_the_budget_and_loses_at_most_a_standard_error(field):
    """Whatever was measured, and however much better something dearer is."""
    points, scores, losses, budget = field
    chosen = recommend(points, scores, losses, budget)
    assert chosen.share <= budget
    best = max(one.quality for one in points if one.share <= budget)
    spread = 100.0 / len(scores[chosen.key]) ** 0.5
    assert chosen.quality >= best - spread


@given(fields(), st.integers(1, 9))
def test_the_best_within_the_budget_always_goes_on(field, keep):
    """So that a search never ends with nothing to recommend; at most ``keep`` go on, none of them clearly dominated."""
    points, scores, _, budget = field
    kept = survivors(points, scores, keep, budget)
    assert 1 <= len(kept) <= keep
    best = max(one.quality for one in points if one.share <= budget)
    assert best in [one.quality for one in kept if one.share <= budget]
    assert set(kept) <= set(undominated(points, scores))


@given(fields())
def test_only_what_something_no_dearer_clearly_beats_is_dropped(field):
    """Each dropped point names its better; each kept one has none."""
    points, scores, *_ = field
    kept = undominated(points, scores)
    for point in points:
        better = [
            one for one in points if one.share <= point.share and clearly_better(scores[one.key], scores[point.key])
        ]
        assert bool(better) == (point not in kept)


def test_a_difference_is_clear_only_over_several_samples_and_beyond_its_spread():
    """Three pairs never are; four alike are; one lucky sample among eight is not; six of eight are."""
    assert not clearly_better([100.0] * 3, [0.0] * 3)
    assert clearly_better([100.0] * 4, [0.0] * 4)
    assert not clearly_better([100.0, *[50.0] * 7], [0.0, *[50.0] * 7])
    assert clearly_better([*[100.0] * 6, 50.0, 50.0], [*[0.0] * 6, 50.0, 50.0])


def test_nothing_within_the_budget_is_refused():
    """One sentence with the budget in it."""
    with pytest.raises(ConfigError, match=r"at most 0\.4 of exact"):
        recommend([Point("a", 0.5, 1.0)], {"a": [1.0]}, {"a": 0.0}, 0.4)
