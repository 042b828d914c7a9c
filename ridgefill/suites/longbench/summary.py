"""Summaries of both suites: means and accuracies with their n and what is left out, and paired comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ridgefill.errors import ResultsError
from ridgefill.stats import sign_test
from ridgefill.suites.longbench.files import DIFFICULTIES, LENGTHS
from ridgefill.suites.longbench.v2 import V2Outcome


@dataclass(frozen=True)
class V1Score:
    """One arm's score of one item, in 0..1; None when the item has none and is left out."""

    dataset: str
    score: float | None


@dataclass(frozen=True)
class V1Mean:
    """Mean score of a dataset in points (0 to 100) over ``n`` items; None without items."""

    dataset: str
    n: int
    left_out: int
    mean: float | None


@dataclass(frozen=True)
class V1Summary:
    """Means by dataset in the order of their first item, and the mean of those means (None if one is missing)."""

    datasets: tuple[V1Mean, ...]
    average: float | None


def summarise_v1(scores: Iterable[V1Score]) -> V1Summary:
    """Every dataset weighs the same in the average, however many items it has."""
    found: dict[str, list[float | None]] = {}
    for one in scores:
        found.setdefault(one.dataset, []).append(one.score)
    means = tuple(_v1_mean(name, values) for name, values in found.items())
    known = [one.mean for one in means if one.mean is not None]
    complete = bool(means) and len(known) == len(means)
    return V1Summary(means, math.fsum(known) / len(known) if complete else None)


def _v1_mean(name: str, values: Sequence[float | None]) -> V1Mean:
    kept = [value for value in values if value is not None]
    mean = 100.0 * math.fsum(kept) / len(kept) if kept else None
    return V1Mean(name, len(kept), len(values) - len(kept), mean)


@dataclass(frozen=True)
class V2Group:
    """Accuracy (0 to 100) of one arm over a group of items; None without items.

    ``n`` items count, ``correct`` of them are right and ``no_answer`` of them named no letter (wrong);
    ``left_out`` further ones gave no text.
    """

    by: str
    name: str
    n: int
    correct: int
    no_answer: int
    left_out: int

    @property
    def accuracy(self) -> float | None:
        """Percentage of right items."""
        return 100.0 * self.correct / self.n if self.n else None


@dataclass(frozen=True)
class V2Comparison:
    """Two arms over the ``n`` items of a group that count for both; ``left_out`` count for one or neither.

    ``first_only`` and ``second_only`` are the discordant items, each right under that arm alone; ``p_value``
    is their exact two-sided sign test.
    """

    by: str
    name: str
    n: int
    left_out: int
    first_only: int
    second_only: int
    p_value: float


def summarise_v2(outcomes: Sequence[V2Outcome]) -> tuple[V2Group, ...]:
    """Overall, by difficulty, by length and by domain (sorted), in this order."""
    return tuple(
        _group(by, name, [one for one in outcomes if _value(one, by) == name]) for by, name in _groups(outcomes)
    )


def _group(by: str, name: str, members: Sequence[V2Outcome]) -> V2Group:
    judged = [one for one in members if one.correct is not None]
    return V2Group(
        by=by,
        name=name,
        n=len(judged),
        correct=sum(one.correct is True for one in judged),
        no_answer=sum(one.status == "no_answer" for one in judged),
        left_out=len(members) - len(judged),
    )


def compare_v2(first: Sequence[V2Outcome], second: Sequence[V2Outcome]) -> tuple[V2Comparison, ...]:
    """The groups of ``summarise_v2`` for two arms. Raises ResultsError when they did not see the same items."""
    if [one.item for one in first] != [one.item for one in second]:
        raise ResultsError(
            f"the arms have {len(first)} and {len(second)} LongBench v2 outcomes that are not of the same items in "
            "the same order; expected both arms on one file"
        )
    pairs = list(zip(first, second, strict=True))
    return tuple(
        _comparison(by, name, [pair for pair in pairs if _value(pair[0], by) == name]) for by, name in _groups(first)
    )


def _comparison(by: str, name: str, pairs: Sequence[tuple[V2Outcome, V2Outcome]]) -> V2Comparison:
    both = [(a.correct, b.correct) for a, b in pairs if a.correct is not None and b.correct is not None]
    first_only = sum(a and not b for a, b in both)
    second_only = sum(b and not a for a, b in both)
    return V2Comparison(
        by, name, len(both), len(pairs) - len(both), first_only, second_only, sign_test(first_only, second_only)
    )


def _groups(outcomes: Sequence[V2Outcome]) -> list[tuple[str, str]]:
    """Kind and name of every group."""
    return [
        ("overall", "overall"),
        *(("difficulty", name) for name in DIFFICULTIES),
        *(("length", name) for name in LENGTHS),
        *(("domain", name) for name in sorted({one.domain for one in outcomes})),
    ]


def _value(outcome: V2Outcome, by: str) -> str:
    """The name of the group of kind ``by`` that an outcome belongs to."""
    return {
        "overall": "overall",
        "difficulty": outcome.difficulty,
        "length": outcome.length,
        "domain": outcome.domain,
    }[by]
