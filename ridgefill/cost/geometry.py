"""A decoder as the cost model sees it: its widths, and what each of its layers costs."""

from __future__ import annotations

from dataclasses import dataclass

from ridgefill.cost.layer import Layer
from ridgefill.errors import ConfigError


@dataclass(frozen=True)
class Geometry:
    """Widths of a decoder in elements: ``hidden``, query ``q`` and key/value ``kv`` widths, MLP ``ff``.

    windows: per layer the rows that a row sees, itself included, None for all; empty when every layer sees all.
    each: what every layer costs, lowest first; empty for plain attention with an MLP, counted from the widths.
    streams: residual streams, which maps read side by side. mixer: multiply-accumulates of mixing them after the last
    layer, for the one row that the output head reads.
    """

    layers: int
    hidden: int
    q: int
    kv: int
    ff: int
    windows: tuple[int | None, ...] = ()
    each: tuple[Layer, ...] = ()
    streams: int = 1
    mixer: int = 0

    @property
    def width(self) -> int:
        """Features of the split state, which maps read."""
        return self.streams * self.hidden

    @property
    def row(self) -> int:
        """One row through one layer of plain attention, without attention scores and weighted sums."""
        return 2 * self.hidden * self.q + 2 * self.hidden * self.kv + 3 * self.hidden * self.ff

    @property
    def filled_row(self) -> int:
        """Keys and values of one filled row in one late layer of plain attention, its map not counted."""
        return 2 * self.hidden * self.kv

    def layer(self, number: int) -> Layer:
        """What layer ``number`` costs."""
        if self.each:
            return self.each[number]
        return Layer(
            writes=self.filled_row,
            rest=2 * self.hidden * self.q,
            mlp=3 * self.hidden * self.ff,
            pair=2 * self.q,
            window=self.window(number),
            asks=self.hidden * self.q,
        )

    def window(self, layer: int) -> int | None:
        """Rows that a row of ``layer`` sees, None for all."""
        return self.windows[layer] if self.windows else None

    def map_row(self, rank: int | None = None) -> int:
        """One row through one map, of full rank or kept as two factors of ``rank``."""
        if rank is not None and not 1 <= rank <= self.hidden:
            raise ConfigError(f"rank is {rank}; expected 1 to {self.hidden}")
        return self.width * self.hidden if rank is None else (self.width + self.hidden) * rank


def check(g: Geometry, tokens: int, split: int, tail: int) -> None:
    """Raise ``ConfigError`` for a prompt without tokens, a split outside the model, or a negative tail."""
    if tokens < 1:
        raise ConfigError(f"tokens is {tokens}; expected at least 1")
    if not 0 <= split < g.layers:
        raise ConfigError(f"split {split} is outside the model; expected 0 to {g.layers - 1}")
    if tail < 0:
        raise ConfigError(f"tail is {tail}; expected 0 or more tokens")
