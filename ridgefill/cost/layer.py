"""What one layer costs, by kind of work: frozen numbers, in multiply-accumulates per row unless said otherwise."""

from __future__ import annotations

from dataclasses import dataclass

CHUNK = 64
"""Rows that the delta rule takes at once; a shorter rest is padded to as many."""


@dataclass(frozen=True)
class Scan:
    """The recurrent part of a Gated DeltaNet layer. conv: its convolution, per row."""

    value_heads: int
    key_dim: int
    value_dim: int
    conv: int

    @property
    def chunk(self) -> int:
        """One chunk of rows through the delta rule: its matrix products and two triangular solves."""
        key, value = self.key_dim, self.value_dim
        within = CHUNK * CHUNK * (2 * key + value)
        solves = CHUNK * (CHUNK - 1) // 2 * (key + value)
        return self.value_heads * (within + solves + 3 * CHUNK * key * value)

    def macs(self, rows: int) -> int:
        """``rows`` in order through the convolution and the delta rule, in whole chunks."""
        return rows * self.conv + self.chunks(rows) * self.chunk

    def chunks(self, rows: int) -> int:
        """Chunks that ``rows`` fill, the last one perhaps padded."""
        return -(-rows // CHUNK)


@dataclass(frozen=True)
class Indexer:
    """Picks what a row of sparse attention sees: ``blocks`` whole blocks of ``block`` rows, and the rows since.

    width: of its queries, all heads together, which score every whole block that the row may see.
    """

    width: int
    block: int
    blocks: int

    def scored(self, visible: int) -> int:
        """Scoring the blocks of one row that may see ``visible`` rows."""
        return self.width * (visible // self.block)

    def scored_upto(self, count: int) -> int:
        """The same for rows that may see 1, 2, ... ``count`` rows, together."""
        return self.width * _whole_blocks(count, self.block)

    def picked(self, visible: int) -> int:
        """Rows that a row attends to when it may see ``visible``."""
        return visible - self.block * max(0, visible // self.block - self.blocks)

    def picked_upto(self, count: int) -> int:
        """The same for rows that may see 1, 2, ... ``count`` rows, together."""
        beyond = max(0, count - self.block * self.blocks)
        return count * (count + 1) // 2 - self.block * _whole_blocks(beyond, self.block)


@dataclass(frozen=True)
class Layer:
    """One layer.

    writes: of every row, what it leaves behind: keys and values, recurrent inputs, raw indexer keys. rest: what exact
    rows project besides: queries, gates, output. mlp: MLP, or router, gate and experts. streams: the hyper-connections
    of an exact row; mix: the part of them that makes the block input. ngrams: token features added to the input. asks:
    what a row projects to rank others by its attention, as its layer input is projected anew for that. pair: per row
    and row that it attends to. window: rows that a row sees, itself included, None for all.
    """

    writes: int
    rest: int
    mlp: int
    pair: int = 0
    window: int | None = None
    streams: int = 0
    mix: int = 0
    ngrams: int = 0
    asks: int = 0
    indexer: Indexer | None = None
    scan: Scan | None = None

    @property
    def row(self) -> int:
        """One exact row, without attention and scan."""
        return self.writes + self.rest + self.mlp + self.streams + self.ngrams

    def attention(self, visible: int) -> int:
        """Scores and weighted sums of one row that may see ``visible`` rows, its window not considered."""
        seen = visible if self.window is None else min(visible, self.window)
        if self.indexer is None:
            return self.pair * seen
        return self.pair * self.indexer.picked(seen) + self.indexer.scored(seen)

    def attention_upto(self, count: int) -> int:
        """The same for rows that may see 1, 2, ... ``count`` rows, together."""
        if self.indexer is not None:
            return self.pair * self.indexer.picked_upto(count) + self.indexer.scored_upto(count)
        growing = count if self.window is None else min(count, self.window)
        return self.pair * (growing * (growing + 1) // 2 + (count - growing) * (self.window or 0))

    def ranking(self, visible: int) -> int:
        """One row that ranks the ``visible`` rows it may see: projected anew, scored with all of them, then masked."""
        scored = 0 if self.indexer is None else self.indexer.scored(visible)
        return self.asks + self.pair // 2 * visible + scored


def _whole_blocks(count: int, size: int) -> int:
    """Sum of ``v // size`` for ``v`` from 1 to ``count``."""
    whole, rest = divmod(count, size)
    return size * (whole * (whole - 1) // 2) + whole * (rest + 1)
