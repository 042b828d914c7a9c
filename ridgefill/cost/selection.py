"""Multiply-accumulates of choosing exact prefix rows by attention: in layers below the split, or by a probe."""

from __future__ import annotations

from collections.abc import Sequence

from ridgefill.cost.geometry import Geometry

PROBING = 256
"""Rows at the prompt's end that probe (paper section 2.4)."""
RANKING_LAYERS = (3, 7, 11, 15)
"""Layers whose attention ranks the prefix rows (paper section 2.4): those below the split that see all rows."""


def ranking_layers(g: Geometry, split: int) -> tuple[int, ...]:
    """Layers below ``split`` that rank prefix rows: RANKING_LAYERS that see all rows, or, with windows, all that do."""
    windows = any(g.layer(number).window is not None for number in range(g.layers))
    return tuple(
        number for number in (range(g.layers) if windows else RANKING_LAYERS) if number < split and _ranks(g, number)
    )


def ranking_macs(g: Geometry, *, first: int, end: int, layers: Sequence[int]) -> int:
    """Ranking by the attention of the rows ``first`` to ``end`` (excluded) in ``layers``, computed anew for it.

    Their queries are projected again, and scored with every row that they see.
    """
    return sum(g.layer(number).ranking(row + 1) for number in layers for row in range(first, end))


def spread_rows(count: int, prefix: int) -> list[int]:
    """``count`` of ``prefix`` positions, as far from each other as can be: rows whose choice is not known yet."""
    return [(2 * row + 1) * prefix // (2 * count) for row in range(count)]


def probe_macs(geometry: Geometry, *, tokens: int, prefix: int, split: int, rows: int = PROBING) -> int:
    """A probe: its rows through every late layer, over the filled rows and themselves, and the ranking by them.

    Layers that see all rows rank: queries and scores are computed again for that.
    """
    first = max(0, tokens - rows)
    known = min(prefix, first)
    total = 0
    for number in range(split, geometry.layers):
        layer = geometry.layer(number)
        total += (tokens - first) * layer.row
        if layer.scan is not None:
            total += layer.scan.macs(tokens - first)
            continue
        ranks = _ranks(geometry, number)
        for row in range(first, tokens):
            reach = layer.window or tokens
            visible = min(row - first + 1, reach) + max(0, known - max(0, row - reach + 1))
            total += layer.attention(visible) + (layer.ranking(visible) if ranks else 0)
    return total


def _ranks(g: Geometry, number: int) -> bool:
    """Whether a layer's rows attend to all rows before them."""
    layer = g.layer(number)
    return layer.scan is None and layer.window is None
