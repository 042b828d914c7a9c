"""Multiply-accumulates of an exact and of a filled prefill."""

from __future__ import annotations

from collections.abc import Sequence

from ridgefill.cost.geometry import Geometry
from ridgefill.cost.parts import Fill, exact_parts, fill_parts


def exact_macs(g: Geometry, tokens: int) -> int:
    """Prefill of ``tokens`` rows with nothing skipped."""
    return sum(part.macs for part in exact_parts(g, tokens))


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
    swept: bool = False,
) -> int:
    """Prefill whose prefix rows are filled from layer ``split`` on.

    exact_rows: 0-based prefix positions that run every layer. rank: of low-rank maps, None for full ones. swept: the
    prompt is filled in two sweeps, of which the first fills every prefix row of late attention layers, also those that
    turn out exact. Without a fill (``"none"``) late rows see only the rows present there: exact ones before them, and
    themselves. Raises ConfigError.
    """
    parts = fill_parts(
        g,
        tokens=tokens,
        split=split,
        tail=tail,
        fill=fill,
        exact_rows=exact_rows,
        mapped_split_layer=mapped_split_layer,
        rank=rank,
        swept=swept,
    )
    return sum(part.macs for part in parts)
