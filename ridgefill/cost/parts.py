"""Where the work of a prefill goes: its parts, whose sum is what the prefill costs."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from ridgefill.cost.geometry import Geometry, check
from ridgefill.cost.layer import Layer
from ridgefill.errors import ConfigError

Fill = Literal["ridge", "identity", "none", "swiftkv", "kva"]
"""What late layers write for filled rows. ``swiftkv`` projects the split state in place of the layer input, ``kva`` has
trained projections of its own for it; neither has maps."""

LOWER = "lower layers"
EXACT = "late layers, exact rows"
FILLED = "late layers, filled rows"
SCANS = "late layers, all rows"
AFTER = "after the layers"


@dataclass(frozen=True)
class Part:
    """One kind of work in one place of a prefill, in multiply-accumulates."""

    where: str
    what: str
    macs: int


@dataclass(frozen=True)
class Late:
    """How the late layers of one prompt treat its rows.

    rows: exact prefix rows, ascending. map_row: one prediction by a map, None where nothing is mapped. swept: whether
    a first sweep has filled every prefix row of the attention layers.
    """

    tokens: int
    prefix: int
    rows: Sequence[int]
    fill: Fill
    swept: bool

    @property
    def exact(self) -> int:
        """Rows that run in full."""
        return len(self.rows) + self.tokens - self.prefix

    def attention(self, layer: Layer) -> int:
        """Attention of the exact rows, over all rows before them, or over the exact ones where nothing is filled."""
        if not layer.pair:
            return 0
        if self.fill != "none":
            tail = layer.attention_upto(self.tokens) - layer.attention_upto(self.prefix)
            return tail + sum(layer.attention(row + 1) for row in self.rows)
        if not self.rows:
            return layer.attention_upto(self.tokens - self.prefix)
        present = [*self.rows, *range(self.prefix, self.tokens)]
        reach = layer.window or self.tokens
        return sum(
            layer.attention(place + 1 - bisect_left(present, row - reach + 1)) for place, row in enumerate(present)
        )

    def filled(self, layer: Layer) -> int:
        """Prefix rows to fill: those not among the exact ones that the first exact row's window reaches."""
        if self.fill == "none":
            return 0
        if self.swept and layer.scan is None:
            return self.prefix
        first = 0 if layer.window is None else max(0, min([*self.rows[:1], self.prefix]) - layer.window + 1)
        return self.prefix - first - (len(self.rows) - bisect_left(self.rows, first))

    def scanned(self) -> int:
        """Rows that feed a recurrent state."""
        return self.exact if self.fill == "none" else self.tokens


def exact_parts(g: Geometry, tokens: int) -> tuple[Part, ...]:
    """Parts of a prefill of ``tokens`` rows with nothing skipped."""
    check(g, tokens, 0, 0)
    found: Counter[tuple[str, str]] = Counter()
    for layer, times in Counter(map(g.layer, range(g.layers))).items():
        for what, macs in _whole(layer, tokens):
            found["layers", what] += times * macs
    return _listed(found, g)


def fill_parts(
    g: Geometry,
    *,
    tokens: int,
    split: int,
    tail: int,
    fill: Fill = "ridge",
    exact_rows: Sequence[int] = (),
    mapped_split_layer: bool = True,
    rank: int | None = None,
    swept: bool = False,
) -> tuple[Part, ...]:
    """Parts of a filled prefill; arguments and errors as of :func:`ridgefill.cost.fill_macs`."""
    check(g, tokens, split, tail)
    prefix = max(0, tokens - tail)
    late = Late(tokens, prefix, _exact_prefix(exact_rows, prefix), fill, swept)
    map_row = g.map_row(rank)
    found: Counter[tuple[str, str]] = Counter()
    for layer, times in Counter(map(g.layer, range(split))).items():
        for what, macs in _whole(layer, tokens):
            found[LOWER, what] += times * macs
    above = Counter((g.layer(number), number > split or mapped_split_layer) for number in range(split, g.layers))
    for (layer, mapped), times in above.items():
        for where, what, macs in _late(late, layer, g, map_row if mapped else None):
            found[where, what] += times * macs
    return _listed(found, g)


def _whole(layer: Layer, tokens: int) -> Iterator[tuple[str, int]]:
    """Every row of a prompt through one layer."""
    yield from _exact(layer, tokens, layer.attention_upto(tokens))
    if layer.scan is not None:
        yield "recurrent states", layer.scan.macs(tokens)


def _exact(layer: Layer, rows: int, attention: int) -> Iterator[tuple[str, int]]:
    """Exact rows through one layer, by kind of work; scans are counted by who knows what feeds them."""
    yield "projections", rows * (layer.writes + layer.rest)
    yield "MLP and experts", rows * layer.mlp
    yield "attention", attention
    yield "hyper-connections", rows * layer.streams
    yield "n-grams", rows * layer.ngrams


def _late(late: Late, layer: Layer, g: Geometry, map_row: int | None) -> Iterator[tuple[str, str, int]]:
    """One late layer. map_row: one row through its map, None where filled rows have their true block input."""
    for what, macs in _exact(layer, late.exact, late.attention(layer)):
        yield EXACT, what, macs
    if layer.scan is not None:
        yield SCANS, "recurrent states", layer.scan.macs(late.scanned())
    rows = late.filled(layer)
    if late.fill == "kva":
        if layer.scan is not None or g.streams > 1:
            raise ConfigError("a kva fill was asked for late layers without plain attention; expected another fill")
        yield FILLED, "keys and values", rows * 2 * g.width * g.kv
        return
    if late.fill == "ridge" and map_row is not None:
        yield FILLED, "maps", rows * map_row
    else:
        yield FILLED, "block inputs", rows * layer.mix
    yield FILLED, "keys and values" if layer.scan is None else "recurrent inputs", rows * layer.writes


def _listed(found: Counter[tuple[str, str]], g: Geometry) -> tuple[Part, ...]:
    """Parts that are any work, in the order of first mention within each place, places in the order of the passes."""
    found[AFTER, "last mix of the streams"] += g.mixer
    places = ("layers", LOWER, EXACT, FILLED, SCANS, AFTER)
    ordered = sorted(found.items(), key=lambda item: places.index(item[0][0]))
    return tuple(Part(where, what, macs) for (where, what), macs in ordered if macs)


def _exact_prefix(rows: Sequence[int], prefix: int) -> list[int]:
    ordered = sorted(int(row) for row in rows)
    if any(low == high for low, high in pairwise(ordered)):
        raise ConfigError("an exact prefix row is listed twice; expected each position once")
    if ordered and not 0 <= ordered[0] <= ordered[-1] < prefix:
        raise ConfigError(f"exact rows {ordered[0]} to {ordered[-1]} leave the prefix of {prefix} rows")
    return ordered
