"""One line of a benchmark, and how two ways of doing the same thing are timed against each other."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any, Literal

from ridgefill.evaluation.clocks import Clock, timed
from ridgefill.progress import progress

Better = Literal["more", "less"]


@dataclass(frozen=True)
class Row:
    """What was measured of one thing. value: a ratio, in the sense that ``what`` states; NaN when it was not taken.

    reference: what the value is compared with, in the same unit. target: the value that must be reached: at least
    that when ``better`` is ``more``, at most that for ``less``. limited: what keeps it from being better, or why it
    was not taken. low, high: the smallest and largest value of single repeats, NaN where there are none.
    """

    name: str
    what: str
    value: float
    reference: float
    target: float
    better: Better = "more"
    limited: str = ""
    low: float = math.nan
    high: float = math.nan

    @property
    def met(self) -> bool:
        """Whether the target was reached; a value that could not be taken has not reached it."""
        return self.value >= self.target if self.better == "more" else self.value <= self.target

    def summary(self) -> dict[str, Any]:
        """The row as the JSON line states it; null for what is not a number."""
        numbers = {"value": self.value, "reference": self.reference, "target": self.target}
        return {
            "name": self.name,
            **{name: None if math.isnan(number) else number for name, number in numbers.items()},
            "met": self.met,
        }


def json_line(rows: Iterable[Row]) -> str:
    """All rows as the one line that ends a benchmark's output."""
    return json.dumps({"rows": [row.summary() for row in rows]})


@dataclass(frozen=True)
class Ratio:
    """``first`` over ``second`` of several alternating pairs: median, smallest and largest of the pairs' ratios.

    seconds: medians of the two sides, which mean something on this machine only.
    """

    value: float
    low: float
    high: float
    seconds: tuple[float, float]


def ratio_of(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """The ratio of ``[(first seconds, second seconds)]`` taken pair by pair, so that a slow minute hits both sides."""
    ratios = [first / second for first, second in pairs]
    sides = (median(first for first, _ in pairs), median(second for _, second in pairs))
    return Ratio(median(ratios), min(ratios), max(ratios), sides)


def alternate(
    first: Callable[[int], object], second: Callable[[int], object], repeats: int, clock: Clock, stage: str
) -> list[tuple[float, float]]:
    """Seconds of both, one untimed pair and then ``repeats`` timed ones, in an order that turns every pair.

    first, second: called with the number of the pair, 0 for the untimed one, so that each can take fresh input.
    """
    pairs = []
    with progress(repeats + 1, stage, "pairs") as bar:
        for number in range(repeats + 1):
            ways = (first, second) if number % 2 else (second, first)
            taken = [timed(partial(way, number), clock)[1] for way in ways]
            pairs.append((taken[0], taken[1]) if number % 2 else (taken[1], taken[0]))
            bar.update(1)
    return pairs[1:]
