"""Multiply-accumulates of prefill, ceilings, break-evens and compute matching (paper section 2.5).

A row in a layer costs ``2 d q + 2 d kv + 3 d ff`` (projections and MLP) plus ``2 q v`` for attention over
the ``v`` rows it sees, itself included. A filled row in a late layer costs ``2 d kv``, plus ``d d`` for its
map. Embedding and output head are left out, as they are the same for every arm. All counts are exact
integers for one prompt of attention layers; recurrent layers are not covered.

The published break-evens with POP and cost ratios come out only when every late layer has a map, the split
layer included (``mapped_split_layer=True``, the default, as the published map files have it). Break-evens
are published as the first multiple of 100 tokens at which the fill is cheaper (14,334 reads 14.4K).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ridgefill.arms import pop_split
from ridgefill.errors import ConfigError

Fill = Literal["ridge", "identity", "none"]


@dataclass(frozen=True)
class Geometry:
    """Widths of a decoder in elements: ``hidden``, query ``q`` and key/value ``kv`` widths, MLP ``ff``."""

    layers: int
    hidden: int
    q: int
    kv: int
    ff: int

    @property
    def row(self) -> int:
        """One row through one layer, without attention scores and weighted sums."""
        return 2 * self.hidden * self.q + 2 * self.hidden * self.kv + 3 * self.hidden * self.ff

    @property
    def filled_row(self) -> int:
        """Keys and values of one filled row in one late layer, its map not counted."""
        return 2 * self.hidden * self.kv


def exact_macs(g: Geometry, tokens: int) -> int:
    """Prefill of ``tokens`` rows with nothing skipped."""
    _check(g, tokens, 0, 0)
    return g.layers * _layer(g, tokens, 0, tokens)


def fill_macs(
    g: Geometry,
    *,
    tokens: int,
    split: int,
    tail: int,
    fill: Fill = "ridge",
    exact_rows: Sequence[int] = (),
    mapped_split_layer: bool = True,
) -> int:
    """Prefill whose prefix rows are filled from layer ``split`` on.

    exact_rows: 0-based prefix positions that run every layer. Without a fill (``"none"``) late rows see
    only the rows present there: exact ones before them, and themselves. Raises ConfigError.
    """
    _check(g, tokens, split, tail)
    prefix = max(0, tokens - tail)
    rows = _exact_prefix(exact_rows, prefix)
    late = g.layers - split
    filled = prefix - len(rows)
    if fill == "none":
        late_macs = late * _layer(g, tokens - filled, 0, tokens - filled)
        return split * _layer(g, tokens, 0, tokens) + late_macs
    seen = sum(position + 1 for position in rows)
    late_macs = late * (_layer(g, tokens - prefix, prefix, tokens) + len(rows) * g.row + 2 * g.q * seen)
    maps = 0 if fill == "identity" else late - (0 if mapped_split_layer else 1)
    filled_macs = filled * (late * g.filled_row + maps * g.hidden * g.hidden)
    return split * _layer(g, tokens, 0, tokens) + late_macs + filled_macs


def pop_macs(g: Geometry, tokens: int) -> int:
    """POP as published: identity from two thirds of the depth, one exact row (paper section 2.5)."""
    return fill_macs(g, tokens=tokens, split=pop_split(g.layers), tail=1, fill="identity")


def crossover_with_pop(g: Geometry, split: int, tail: int, *, mapped_split_layer: bool = True) -> int | None:
    """Fewest tokens at which the ridge fill costs less than POP; None when it never does.

    From ``tail`` on, POP's cost minus the fill's is a parabola in the tokens that starts below zero and
    opens upwards exactly when ``split`` lies below POP's, so there is one crossing to bisect for.
    """
    if split >= pop_split(g.layers):
        return None

    def cheaper(tokens: int) -> bool:
        cost = fill_macs(g, tokens=tokens, split=split, tail=tail, mapped_split_layer=mapped_split_layer)
        return cost < pop_macs(g, tokens)

    low, high = max(1, tail), max(2, 2 * tail)
    while not cheaper(high):
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


def _layer(g: Geometry, rows: int, first: int, last: int) -> int:
    """``rows`` rows at positions ``first`` to ``last - 1``, each seeing all positions up to its own."""
    return rows * g.row + g.q * (last * (last + 1) - first * (first + 1))


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
