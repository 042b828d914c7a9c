"""How wide the printed intervals are: of scores against the number of items, of losses against the loss."""

from __future__ import annotations

from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from ridgefill.tables.points import Cells
from ridgefill.tables.style import INK, SEQUENCE, Panel

SCORES = ("points", "points_difference")
LOSSES = ("nats", "nats_difference")
# What is drawn together: the words of the legend, its tables.
GROUPS = (
    ("arms, all tasks", ("main", "split_curve", "suites")),
    ("arms, one task or dataset", ("tasks", "longbench_v1", "longbench_v2")),
    ("differences of two arms", ("contrasts",)),
)
Z = 1.959963984540054


def width_panels(cells: Cells) -> list[Panel]:
    """Widths of scores over n with the widest that theory has, and of losses over their size."""
    found: list[Panel] = []
    scores, losses = _groups(cells, SCORES), _groups(cells, LOSSES)
    if scores:
        found.append(("Scores: fewer items, wider intervals", partial(_scores, groups=scores)))
    losses = {words: [one for one in rows if one[2] > one[1]] for words, rows in losses.items()}
    if any(losses.values()):
        found.append(("Losses: which intervals leave out zero", partial(_losses, groups=losses)))
    return found


def _groups(cells: Cells, kinds: tuple[str, ...]) -> dict[str, list[tuple[float, float, float, int]]]:
    """Value, low, high and n of every printed interval of the kinds, by what it is of."""
    groups: dict[str, list[tuple[float, float, float, int]]] = {}
    for words, tables in GROUPS:
        for identity, cell in cells.items():
            low, high = cells.get(f"{identity}.low"), cells.get(f"{identity}.high")
            if cell.kind not in kinds or low is None or high is None or identity.split(".")[0] not in tables:
                continue
            if cell.value is not None and low.value is not None and high.value is not None:
                row = (float(cell.value), float(low.value), float(high.value), cell.n)
                groups.setdefault(words, []).append(row)
    return groups


def _shade(words: str) -> str:
    return SEQUENCE[(2, 0, 3)[[one for one, _ in GROUPS].index(words)]]


def _scores(axis: Axes, first: bool, groups: dict[str, list[tuple[float, float, float, int]]]) -> None:
    counts = [n for rows in groups.values() for *_, n in rows]
    line = np.geomspace(max(1, min(counts)) * 0.8, max(counts) * 1.25, 60)
    axis.plot(line, np.minimum(100.0, 2 * Z * 50 / np.sqrt(line)), ls="--", lw=1.2, color=INK, label="widest by theory")
    for words, rows in groups.items():
        axis.plot([row[3] for row in rows], [row[2] - row[1] for row in rows], "o", ms=5, alpha=0.6,
                  mew=0, color=_shade(words), label=words)  # fmt: skip
    axis.set_xscale("log")
    axis.minorticks_off()
    ticks = [n for n in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000) if line[0] <= n <= line[-1]]
    axis.set_xticks(ticks, [str(n) for n in ticks])
    axis.set_ylim(bottom=-2)
    axis.set_xlabel("items (n)")
    axis.set_ylabel("width of the interval, points")
    axis.legend(frameon=False, fontsize=8.5, loc="upper right")


def _losses(axis: Axes, first: bool, groups: dict[str, list[tuple[float, float, float, int]]]) -> None:
    for words, rows in groups.items():
        for without in (True, False):
            some = [row for row in rows if (row[1] > 0 or row[2] < 0) == without]
            axis.plot(
                [max(1e-4, abs(row[0])) for row in some], [row[2] - row[1] for row in some], "o", ms=5, alpha=0.75,
                color=_shade(words), mfc=_shade(words) if without else "none", mew=0 if without else 1.3,
                label=words if without and some else None,
            )  # fmt: skip
    axis.set_xscale("log")
    axis.set_yscale("log")
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))
        side.set_minor_formatter(NullFormatter())
    axis.plot([], [], "o", ms=5, mfc="none", mew=1.3, color=INK, label="hollow: zero is inside")
    axis.set_xlabel("size of the difference, nats")
    axis.set_ylabel("width of the interval, nats")
    axis.legend(frameon=False, fontsize=8.5, loc="best")
