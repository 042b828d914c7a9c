"""Labels beside an axis that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

LINE = 12.0
"""Height of a label's line in points."""
EDGES = 0.95
"""Inches of a panel's height that its title and its axis take."""


def line_share(axis: Axes) -> float:
    """Height of a label's line as a share of the axis, in a figure whose panels stand on top of each other."""
    figure = axis.figure
    height = figure.get_figheight() if isinstance(figure, Figure) else 0.0
    spec = axis.get_subplotspec()
    rows = spec.get_gridspec().nrows if spec is not None else 1
    return LINE / 72 / max(0.5, height / rows - EDGES)


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Places in 0..1 in the order of ``wanted``, at least ``gap`` apart and as close to what is wanted as can be.

    Least squares under the order, which is isotonic regression. The gap shrinks where they would not all fit.
    """
    gap = min(gap, 1.0 / max(1, len(wanted) - 1))
    order = np.argsort(np.asarray(wanted), kind="stable")
    pools: list[tuple[float, int]] = []
    for place, index in enumerate(order):
        mean, size = float(wanted[index]) - place * gap, 1
        while pools and pools[-1][0] > mean:
            other, count = pools.pop()
            mean, size = (mean * size + other * count) / (size + count), size + count
        pools.append((mean, size))
    room = 1.0 - (len(wanted) - 1) * gap
    flat = [min(max(mean, 0.0), room) for mean, size in pools for _ in range(size)]
    places = [0.0] * len(wanted)
    for place, index in enumerate(order):
        places[index] = flat[place] + place * gap
    return places
