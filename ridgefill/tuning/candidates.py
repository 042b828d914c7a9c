"""What a search tries: split, tail, share of exact rows and kind of maps, each with its cost before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, ceiling, exact_macs, fill_macs, spread_rows
from ridgefill.errors import ConfigError
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Work, rounded_share

DEPTHS = (3 / 8, 1 / 2, 9 / 16, 5 / 8, 11 / 16, 3 / 4)
"""Where a split may lie, as shares of the depth: from the paper's place for models with QK-norm to well beyond half."""
TAILS = (1 / 16, 1 / 8, 1 / 4)
"""Tails as shares of the prompt."""
SHORTEST_TAIL, LONGEST_TAIL = 32, 4096
ROW_SHARES = (0.05, 0.1)
"""Exact prefix rows, picked by attention, as shares of the prompt."""
EXACT = "exact"
"""Key of exact prefill, which every candidate is compared with."""


@dataclass(frozen=True)
class Candidate:
    """One setting of the fill. tail: tokens. rows: share of the prompt that attention picks as exact rows, 0 for none.
    maps: how they are fitted."""

    split: int
    tail: int
    rows: float = 0.0
    maps: RidgeOptions = PLAIN

    @property
    def key(self) -> str:
        """Unique name, such as ``split19-tail128-rows10-identity``."""
        rows = f"-rows{100 * self.rows:g}" if self.rows else ""
        return f"split{self.split}-tail{self.tail}{rows}{self.maps.suffix}"

    @property
    def arm(self) -> Arm:
        """The arm that runs it."""
        rows = AttentionRows(self.rows) if self.rows else None
        return Arm(self.key, "ridge", self.split, self.tail, rows=rows, maps=self.maps)

    def share(self, geometry: Geometry, tokens: int) -> float:
        """Share of exact prefill's multiply-accumulates on a prompt of ``tokens``, picking rows included.

        Which rows attention will pick is not known beforehand: they are counted as spread evenly.
        """
        prefix = max(0, tokens - self.tail)
        count = min(prefix, rounded_share(self.rows, tokens)) if self.rows else 0
        spent = fill_macs(
            geometry,
            tokens=tokens,
            split=self.split,
            tail=tokens - prefix,
            exact_rows=spread_rows(count, prefix),
            mapped_split_layer=False,
            rank=self.maps.rank,
        )
        if self.rows:
            spent += AttentionRows(self.rows).macs(Work(geometry, tokens, prefix, self.split, count))
        return spent / exact_macs(geometry, tokens)

    def described(self) -> dict[str, Any]:
        """Its settings as JSON."""
        return {
            "candidate": self.key,
            "split": self.split,
            "tail": self.tail,
            "rows_share": self.rows,
            "towards": self.maps.towards,
            "rank": self.maps.rank,
        }


@dataclass(frozen=True)
class Grid:
    """Everything that may be combined. ranking: whether some layer below a split can rank rows by attention."""

    splits: tuple[int, ...]
    tails: tuple[int, ...]
    rows: tuple[float, ...]
    maps: tuple[RidgeOptions, ...]
    ranking: Callable[[int], bool]

    def coarse(self) -> list[Candidate]:
        """Every split with every tail, the first kind of maps, no exact rows."""
        return [Candidate(split, tail, maps=self.maps[0]) for split in self.splits for tail in self.tails]

    def variations(self, candidate: Candidate) -> list[Candidate]:
        """A coarse candidate with one thing changed: exact rows, where they can be ranked, or other maps."""
        rows = [replace(candidate, rows=share) for share in self.rows if self.ranking(candidate.split)]
        return rows + [replace(candidate, maps=maps) for maps in self.maps[1:]]

    def longest_tail(self) -> int:
        """Needles have to lie before it, so that all candidates are scored on the same samples."""
        return max(self.tails)


def default_splits(layers: int, first: int, attends: Callable[[int], bool], windows: bool) -> tuple[int, ...]:
    """Splits to try in a model of ``layers``, none below ``first``.

    With windowed layers each is moved to the nearest layer that sees all rows: the rows of a split layer are written
    from true states, and only such layers carry the far prefix.
    """
    places = [max(first, min(layers - 1, int(layers * depth + 0.5))) for depth in DEPTHS]
    seeing = [layer for layer in range(first, layers) if attends(layer)]
    if windows and seeing:
        places = [min(seeing, key=lambda layer: (abs(layer - place), layer)) for place in places]
    return tuple(sorted(set(places)))


def default_tails(tokens: int) -> tuple[int, ...]:
    """Tails to try on prompts of ``tokens``."""
    tails = (min(LONGEST_TAIL, max(SHORTEST_TAIL, int(tokens * share + 0.5))) for share in TAILS)
    return tuple(sorted(set(tails)))


def default_maps(width: int, hidden: int) -> tuple[RidgeOptions, ...]:
    """Maps to try: the paper's, and, where states and inputs are alike, pulled towards the identity, whole and thin."""
    if width != hidden:
        return (PLAIN,)
    identity = RidgeOptions("identity")
    return (PLAIN, identity, replace(identity, rank=max(1, hidden // 8)))


def within_reach(
    candidates: Sequence[Candidate], share_of: Callable[[Candidate], float], budget: float, reach: float
) -> list[Candidate]:
    """Candidates that cost at most ``budget + reach``, for the front a little past the budget.

    Raises ``ConfigError`` when none costs at most ``budget``.
    """
    costs = [share_of(one) for one in candidates]
    least = min(range(len(costs)), key=costs.__getitem__)
    if costs[least] > budget:
        one = candidates[least]
        raise ConfigError(
            f"the budget is {budget:.3g} of exact prefill, and the cheapest setting (split {one.split}, tail "
            f"{one.tail}) takes {costs[least]:.3f}, a speedup of {ceiling(costs[least]):.2f} at most; raise --budget, "
            "or give lower --splits or shorter --tails"
        )
    return [one for one, cost in zip(candidates, costs, strict=True) if cost <= budget + reach]
