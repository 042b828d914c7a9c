"""Pure rules over measured candidates: which are on the Pareto front, which go on, and which one is recommended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ridgefill.errors import ConfigError

CLEAR_ERRORS = 2.0
"""Standard errors by which a paired difference must leave 0 to be clear."""
FEWEST_PAIRS = 4
"""Pairs below which no difference is clear."""

Scores = Mapping[str, Sequence[float]]
"""Points of each candidate on the same samples, by key."""


@dataclass(frozen=True)
class Point:
    """A candidate as the rules see it. share: of exact prefill's multiply-accumulates. quality: higher is better."""

    key: str
    share: float
    quality: float


def dominates(a: Point, b: Point) -> bool:
    """Whether ``a`` is nowhere worse than ``b`` and somewhere better."""
    return a.share <= b.share and a.quality >= b.quality and (a.share, a.quality) != (b.share, b.quality)


def pareto(points: Sequence[Point]) -> list[Point]:
    """The points that no other dominates, cheapest first; equal ones all stay."""
    front: list[Point] = []
    for point in sorted(points, key=lambda one: (one.share, -one.quality, one.key)):
        if not front or not dominates(front[-1], point):
            front.append(point)
    return front


def clearly_better(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether ``a`` beats ``b`` on paired samples by more than ``CLEAR_ERRORS`` standard errors of the difference.

    A rule for saving work, not a test: what is recommended is tested on other data.
    """
    if len(a) < FEWEST_PAIRS:
        return False
    mean, error = paired(a, b)
    return mean > CLEAR_ERRORS * error


def paired(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Mean of ``a - b`` and its standard error, 0 for a single pair."""
    differences = [left - right for left, right in zip(a, b, strict=True)]
    count = len(differences)
    mean = math.fsum(differences) / count
    squares = math.fsum((one - mean) ** 2 for one in differences)
    return mean, math.sqrt(squares / (count - 1) / count) if count > 1 else 0.0


def undominated(points: Sequence[Point], scores: Scores) -> list[Point]:
    """Points without those that another one, no dearer, is clearly better than."""
    return [
        point
        for point in points
        if not any(
            other.share <= point.share and clearly_better(scores[other.key], scores[point.key]) for other in points
        )
    ]


def survivors(points: Sequence[Point], scores: Scores, keep: int, budget: float) -> list[Point]:
    """At most ``keep`` points that go on to more samples, cheapest first.

    The clearly dominated go. Half of the places are for the best retrieval within the budget, as on few samples many
    are alike; then the front goes on, the front of what is left, and so on, of the last of these fronts the points
    within the budget first, then the better ones.
    """
    left = undominated(points, scores)
    inside = sorted((one for one in left if one.share <= budget), key=_best_first)
    chosen = inside[: (keep + 1) // 2]
    left = [point for point in left if point not in chosen]
    while left and len(chosen) < keep:
        layer = pareto(left)
        left = [point for point in left if point not in layer]
        layer.sort(key=lambda one: (one.share > budget, *_best_first(one)))
        chosen += layer[: keep - len(chosen)]
    return sorted(chosen, key=lambda one: (one.share, one.key))


def recommend(points: Sequence[Point], scores: Scores, losses: Mapping[str, float], budget: float) -> Point:
    """The recommended point. Raises ``ConfigError`` when none costs at most ``budget``.

    Of those that do, the ones whose paired deficit to the best retrieval is at most one standard error count as equally
    good (retrieval comes in large steps); of these the least loss, then the least cost, then the first by name.
    """
    inside = [point for point in points if point.share <= budget]
    if not inside:
        raise ConfigError(f"no setting costs at most {budget:.3g} of exact prefill; expected at least one. Raise it")
    best = min(inside, key=_best_first)
    alike = []
    for point in inside:
        deficit, error = paired(scores[best.key], scores[point.key])
        if deficit <= error:
            alike.append(point)
    return min(alike, key=lambda one: (losses[one.key], one.share, one.key))


def _best_first(point: Point) -> tuple[float, float, str]:
    return -point.quality, point.share, point.key
