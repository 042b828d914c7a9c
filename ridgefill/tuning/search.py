"""Successive halving: many candidates on few samples, the survivors and their variations on more, few on all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ridgefill.progress import progress
from ridgefill.tuning.candidates import EXACT, Candidate, Grid, within_reach
from ridgefill.tuning.front import Point, recommend, survivors

Row = dict[str, Any]
REACH = 0.1
"""How far past the budget candidates are still run, so that the front says what a little more would buy."""
FEWEST_KEPT = 6


class Scorer(Protocol):
    """What measures candidates on one stage's items. Both give one row by key, ``exact`` among them when asked."""

    def retrieve(self, index: int, candidates: Sequence[Candidate], exact: bool) -> Mapping[str, Row]:
        """Sample ``index``: rows with ``score``, 0 to 1."""

    def lose(self, index: int, candidates: Sequence[Candidate]) -> Mapping[str, Row]:
        """Document ``index``: rows with ``loss`` and ``key_loss``, nats per token above exact; the second is None
        where no token is a key token."""


Prepare = Callable[[Sequence[Candidate]], Scorer]
"""Fits what these candidates need; they are all that the scorer is then asked for."""


@dataclass(frozen=True)
class Plan:
    """How much is measured. samples, documents: of the last round."""

    samples: int
    documents: int

    @property
    def counts(self) -> tuple[int, int, int]:
        """Samples of each round: a quarter, a half, all."""
        return -(-self.samples // 4), -(-self.samples // 2), self.samples


@dataclass(frozen=True)
class Trial:
    """A candidate with what was measured of it in the rounds that it took part in.

    points: 0 to 100 by sample. loss, key_loss: nats above exact, mean over documents; None before the last round, the
    second also where no document has a key token.
    """

    candidate: Candidate
    share: float
    points: tuple[float, ...]
    loss: float | None = None
    key_loss: float | None = None

    @property
    def quality(self) -> float:
        """Mean points."""
        return math.fsum(self.points) / len(self.points)

    @property
    def loss_for_choice(self) -> float:
        """What decides between candidates that retrieve alike: loss on key tokens, where there are any, else on all."""
        return (self.loss or 0.0) if self.key_loss is None else self.key_loss

    @property
    def point(self) -> Point:
        """What the rules see."""
        return Point(self.candidate.key, self.share, self.quality)


@dataclass(frozen=True)
class Found:
    """A search's outcome. trials: all that ran, by key. finalists: those of the last round, cheapest first. exact:
    points of exact prefill on all samples. rounds: candidates and samples of each. rows: everything measured."""

    trials: Mapping[str, Trial]
    finalists: tuple[Trial, ...]
    chosen: Trial
    exact: tuple[float, ...]
    rounds: tuple[tuple[int, int], ...]
    rows: tuple[Row, ...]


def search(prepare: Prepare, grid: Grid, share_of: Callable[[Candidate], float], budget: float, plan: Plan) -> Found:
    """Search ``grid`` for the best setting that costs at most ``budget`` of exact prefill.

    Deterministic as far as the scorer is. Raises ``ConfigError`` when no setting is within the budget.
    """
    field = within_reach(grid.coarse(), share_of, budget, REACH)
    known: dict[str, Candidate] = {}
    measured: dict[str, dict[int, Row]] = {EXACT: {}}
    rounds: list[tuple[int, int]] = []
    for number, count in enumerate(plan.counts, 1):
        known |= {one.key: one for one in field}
        scorer = prepare(field)
        _measure(scorer, field, count, measured, f"round {number}/3")
        rounds.append((len(field), count))
        if number == len(plan.counts):
            break
        kept = _kept(field, measured, share_of, budget)
        more = [other for one in kept for other in grid.variations(one)] if number == 1 else []
        field = [*kept, *(one for one in more if share_of(one) <= budget + REACH)]
    lost = _losses(scorer, field, plan.documents)
    trials = {key: _trial(one, share_of(one), measured[key], lost.get(key, [])) for key, one in known.items()}
    finalists = sorted((trials[one.key] for one in field), key=lambda one: (one.share, one.candidate.key))
    rows = [row for by_index in measured.values() for _, row in sorted(by_index.items())]
    return Found(
        trials,
        tuple(finalists),
        trials[_recommended(finalists, budget)],
        tuple(_points(measured[EXACT])),
        tuple(rounds),
        tuple(rows + [row for found in lost.values() for row in found]),
    )


def _measure(
    scorer: Scorer, field: Sequence[Candidate], count: int, measured: dict[str, dict[int, Row]], stage: str
) -> None:
    """Add what is missing of the first ``count`` samples of every candidate, and of exact."""
    missing = [[one for one in field if index not in measured.setdefault(one.key, {})] for index in range(count)]
    with progress(sum(map(len, missing)), stage, "runs") as bar:
        for index, candidates in enumerate(missing):
            exact = index not in measured[EXACT]
            if candidates or exact:
                for key, row in scorer.retrieve(index, candidates, exact).items():
                    measured[key][index] = row
            bar.update(len(candidates))


def _losses(scorer: Scorer, field: Sequence[Candidate], documents: int) -> dict[str, list[Row]]:
    lost: dict[str, list[Row]] = {}
    with progress(documents, "documents", "texts") as bar:
        for index in range(documents):
            for key, row in scorer.lose(index, field).items():
                lost.setdefault(key, []).append(row)
            bar.update(1)
    return lost


def _kept(
    field: Sequence[Candidate],
    measured: Mapping[str, Mapping[int, Row]],
    share_of: Callable[[Candidate], float],
    budget: float,
) -> list[Candidate]:
    """A third of the field, the best within the budget and then front after front; at least a few."""
    trials = {one.key: _trial(one, share_of(one), measured[one.key], []) for one in field}
    keep = max(FEWEST_KEPT, -(-len(field) // 3))
    chosen = survivors(
        [one.point for one in trials.values()], {key: one.points for key, one in trials.items()}, keep, budget
    )
    return [trials[point.key].candidate for point in chosen]


def _recommended(finalists: Sequence[Trial], budget: float) -> str:
    """Key of the recommendation; something within the budget is in every round, on its front."""
    losses = {one.candidate.key: one.loss_for_choice for one in finalists}
    scores = {one.candidate.key: one.points for one in finalists}
    return recommend([one.point for one in finalists], scores, losses, budget).key


def _trial(candidate: Candidate, share: float, by_index: Mapping[int, Row], lost: Sequence[Row]) -> Trial:
    key_losses = [row["key_loss"] for row in lost if row["key_loss"] is not None]
    return Trial(
        candidate,
        share,
        tuple(_points(by_index)),
        math.fsum(row["loss"] for row in lost) / len(lost) if lost else None,
        math.fsum(key_losses) / len(key_losses) if key_losses else None,
    )


def _points(by_index: Mapping[int, Row]) -> list[float]:
    return [100.0 * float(by_index[index]["score"]) for index in sorted(by_index)]
