"""Multiply-accumulates of prefill, ceilings, break-evens and compute matching (paper section 2.5).

A row in a layer costs ``2 d q + 2 d kv + 3 d ff`` (projections and MLP) plus ``2 q v`` for attention over
the ``v`` rows it sees, itself included, at most its window in a windowed layer. A filled row in a late layer
costs ``2 d kv``, plus ``d d`` for its map; in a windowed layer, rows that no exact row can see are not filled.
Embedding and output head are left out, as they are the same for every arm. All counts are exact integers for
one prompt of attention layers; recurrent layers are not covered.

The published break-evens with POP and cost ratios come out only when every late layer has a map, the split
layer included (``mapped_split_layer=True``, the default, as the published map files have it). Break-evens
are published as the first multiple of 100 tokens at which the fill is cheaper (14,334 reads 14.4K).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ridgefill.arms import pop_split
from ridgefill.errors import ConfigError

Fill = Literal["ridge", "identity", "none"]

FOREVER = 2**40
"""Tokens beyond which a break-even is none."""


@dataclass(frozen=True)
class Geometry:
    """Widths of a decoder in elements: ``hidden``, query ``q`` and key/value ``kv`` widths, MLP ``ff``.

    windows: per layer the rows that a row sees, itself included, None for all; empty when every layer sees all.
    """

    layers: int
    hidden: int
    q: int
    kv: int
    ff: int
    windows: tuple[int | None, ...] = ()

    @property
    def row(self) -> int:
        """One row through one layer, without attention scores and weighted sums."""
        return 2 * self.hidden * self.q + 2 * self.hidden * self.kv + 3 * self.hidden * self.ff

    @property
    def filled_row(self) -> int:
        """Keys and values of one filled row in one late layer, its map not counted."""
        return 2 * self.hidden * self.kv

    def window(self, layer: int) -> int | None:
        """Rows that a row of ``layer`` sees, None for all."""
        return self.windows[layer] if self.windows else None

    def map_row(self, rank: int | None = None) -> int:
        """One row through one map, of full rank or kept as two factors of ``rank``."""
        if rank is not None and not 1 <= rank <= self.hidden:
            raise ConfigError(f"rank is {rank}; expected 1 to {self.hidden}")
        return self.hidden * self.hidden if rank is None else 2 * self.hidden * rank


def exact_macs(g: Geometry, tokens: int) -> int:
    """Prefill of ``tokens`` rows with nothing skipped."""
    _check(g, tokens, 0, 0)
    return _whole_layers(g, range(g.layers), tokens)


def fill_macs(
    g: Geometry,
    *,
    tokens: int,
    split: int,
    tail: int,
    fill: Fill = "ridge",
    exact_rows: Sequence[int] = (),
    mapped_split_layer: bool = True,
    rank: int | None = None,
) -> int:
    """Prefill whose prefix rows are filled from layer ``split`` on.

    exact_rows: 0-based prefix positions that run every layer. rank: of low-rank maps, None for full ones.
    Without a fill (``"none"``) late rows see only the rows present there: exact ones before them, and
    themselves. Raises ConfigError.
    """
    _check(g, tokens, split, tail)
    prefix = max(0, tokens - tail)
    rows = _exact_prefix(exact_rows, prefix)
    late = Counter(
        (g.window(layer), fill == "ridge" and (layer > split or mapped_split_layer)) for layer in range(split, g.layers)
    )
    late_macs = sum(
        layers * _late_layer(g, tokens, prefix, rows, fill, window, g.map_row(rank) if mapped else 0)
        for (window, mapped), layers in late.items()
    )
    return _whole_layers(g, range(split), tokens) + late_macs


def pop_macs(g: Geometry, tokens: int) -> int:
    """POP as published: identity from two thirds of the depth, one exact row (paper section 2.5)."""
    return fill_macs(g, tokens=tokens, split=pop_split(g.layers), tail=1, fill="identity")


def crossover_with_pop(g: Geometry, split: int, tail: int, *, mapped_split_layer: bool = True) -> int | None:
    """Fewest tokens at which the ridge fill costs less than POP; None when it never does.

    From ``tail`` on, POP's cost minus the fill's is a parabola in the tokens that starts below zero and
    opens upwards exactly when ``split`` lies below POP's, so there is one crossing to bisect for. (Where all
    layers in between are windowed it becomes a line.)
    """
    if split >= pop_split(g.layers):
        return None

    def cheaper(tokens: int) -> bool:
        cost = fill_macs(g, tokens=tokens, split=split, tail=tail, mapped_split_layer=mapped_split_layer)
        return cost < pop_macs(g, tokens)

    low, high = max(1, tail), max(2, 2 * tail)
    while not cheaper(high):
        # Windowed layers cost no more than linear, so without a layer that sees all rows POP may stay cheaper.
        if high > FOREVER:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cheaper(middle) else (middle, high)
    return high


def match_no_fill_tail(g: Geometry, tokens: int, split: int, target_macs: int) -> tuple[int, int]:
    """The tail, 1 to ``tokens``, at which no fill costs closest to ``target_macs``, and what it costs more.

    The residual (no-fill cost minus target, negative when cheaper) is at most half a late row wherever the
    target lies between the costs of tail 1 and of exact. Ties go to the shorter tail.
    """
    _check(g, tokens, split, 1)

    def excess(tail: int) -> int:
        return fill_macs(g, tokens=tokens, split=split, tail=tail, fill="none") - target_macs

    low, high = 1, tokens
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle + 1, high)
    shorter = max(1, low - 1)
    tail = shorter if abs(excess(shorter)) <= abs(excess(low)) else low
    return tail, excess(tail)


def layer_share(layers: int, split: int, tail: int, tokens: int) -> float:
    """Share of layer passes that remain, ``(P S + T L) / (N L)``; 1 for a prompt no longer than the tail."""
    if layers < 1 or tokens < 1 or not 0 <= split <= layers or tail < 0:
        raise ConfigError(
            f"cost of layers={layers} split={split} tail={tail} tokens={tokens} is undefined; expected "
            "at least one layer and token, and a split within the layers"
        )
    exact = min(tail, tokens)
    return ((tokens - exact) * split + exact * layers) / (tokens * layers)


def ceiling(share: float) -> float:
    """Largest speedup when ``share`` of the work remains and nothing else takes time."""
    if not share > 0.0:
        raise ConfigError(f"a share of {share} of the work has no ceiling; expected a number above 0")
    return 1.0 / share


def _whole_layers(g: Geometry, layers: range, tokens: int) -> int:
    """Every row of a prompt through the given layers."""
    return sum(tokens * g.row + 2 * g.q * _seen(0, tokens, g.window(layer)) for layer in layers)


def _late_layer(
    g: Geometry, tokens: int, prefix: int, rows: Sequence[int], fill: Fill, window: int | None, map_row: int
) -> int:
    """One late layer: exact prefix rows and the tail in full, the other prefix rows as far as they are filled."""
    whole = (len(rows) + tokens - prefix) * g.row
    if fill == "none":
        seen = _seen_among([*rows, *range(prefix, tokens)], window) if rows else _seen(0, tokens - prefix, window)
        return whole + 2 * g.q * seen
    seen = _seen(prefix, tokens, window) + sum(min(row + 1, window or tokens) for row in rows)
    return whole + 2 * g.q * seen + _needed(rows, prefix, window) * (g.filled_row + map_row)


def _seen(first: int, last: int, window: int | None) -> int:
    """Rows seen by the rows at positions ``first`` to ``last - 1`` together: each its own and those before it."""

    def upto(count: int) -> int:
        growing = count if window is None else min(count, window)
        return growing * (growing + 1) // 2 + (count - growing) * (window or 0)

    return upto(last) - upto(first)


def _seen_among(present: Sequence[int], window: int | None) -> int:
    """The same for rows at the ascending positions ``present``, when there are no others."""
    if window is None:
        return len(present) * (len(present) + 1) // 2
    return sum(place + 1 - bisect_left(present, row - window + 1) for place, row in enumerate(present))


def _needed(rows: Sequence[int], prefix: int, window: int | None) -> int:
    """Prefix rows to fill in a layer: those not among the exact ``rows`` that the first exact row's window reaches."""
    first = 0 if window is None else max(0, min([*rows[:1], prefix]) - window + 1)
    return prefix - first - (len(rows) - bisect_left(rows, first))


def _exact_prefix(rows: Sequence[int], prefix: int) -> list[int]:
    ordered = sorted(int(row) for row in rows)
    if any(low == high for low, high in pairwise(ordered)):
        raise ConfigError("an exact prefix row is listed twice; expected each position once")
    if ordered and not 0 <= ordered[0] <= ordered[-1] < prefix:
        raise ConfigError(f"exact rows {ordered[0]} to {ordered[-1]} leave the prefix of {prefix} rows")
    return ordered


def _check(g: Geometry, tokens: int, split: int, tail: int) -> None:
    if tokens < 1:
        raise ConfigError(f"tokens is {tokens}; expected at least 1")
    if not 0 <= split < g.layers:
        raise ConfigError(f"split {split} is outside the model; expected 0 to {g.layers - 1}")
    if tail < 0:
        raise ConfigError(f"tail is {tail}; expected 0 or more tokens")
