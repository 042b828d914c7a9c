"""The Pareto plot: what each arm keeps against what it costs, every arm named beside the axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes

from ridgefill.tables.folder import arm_label, arm_order
from ridgefill.tables.labels import EDGES, LINE, line_share, spread
from ridgefill.tables.points import Cells, arms_of, ids, interval, value
from ridgefill.tables.style import INK, Panel, colour

# Below this many nats the axis of losses is linear, so that zero and less can be shown.
LINEAR = 0.01
ROOM = 0.96
LEADER = {"arrowstyle": "-", "lw": 0.8, "alpha": 0.75, "shrinkA": 2, "shrinkB": 4, "relpos": (0.0, 0.5)}
TICKS = (-0.1, -0.03, -0.01, 0, 0.01, 0.03, 0.1, 0.3, 1, 3)


@dataclass(frozen=True)
class Mark:
    """One arm: its work in per cent of exact, its quality and the ends of the interval."""

    arm: str
    work: float
    middle: float
    low: float
    high: float


def pareto_panels(cells: Cells) -> tuple[list[Panel], float]:
    """Panels for retrieval and for loss, and the height in inches that gives each label a line of its own."""
    measures = (
        ("ruler_filled", "Retrieval in the filled region", "RULER points", True),
        ("nll_novel", "Loss on novel tokens", "nats above exact", False),
    )
    panels: list[Panel] = []
    most = 0
    for metric, title, words, up in measures:
        marks = _marks(cells, metric)
        if len(marks) > 1:
            exact = interval(cells, f"main.exact.{metric}") if up else (0.0, 0.0, 0.0)
            most = max(most, len(marks))
            panels.append((title, partial(_paint, marks=marks, exact=exact, words=words, up=up)))
    return panels, _height(most)


def _height(labels: int) -> float:
    return max(3.3, EDGES + labels * LINE / 72 / ROOM)


def _marks(cells: Cells, metric: str) -> list[Mark]:
    """Every arm but exact that has the measure and a share of the work."""
    found = []
    for arm in sorted({words[0] for words in ids(cells, "main", 2)} - {"exact"}, key=arm_order):
        work, quality = value(cells, f"main.{arm}.mac_share"), interval(cells, f"main.{arm}.{metric}")
        if work is not None and quality is not None:
            found.append(Mark(arm, 100 * work, *quality))
    return found


def front(marks: Sequence[Mark], up: bool) -> list[Mark]:
    """The arms that no other arm matches or beats in both work and quality, from the cheapest on."""
    best: list[Mark] = []
    for mark in sorted(marks, key=lambda one: (one.work, -one.middle if up else one.middle)):
        if not best or (mark.middle > best[-1].middle if up else mark.middle < best[-1].middle):
            best.append(mark)
    return best


def _paint(
    axis: Axes, first: bool, marks: list[Mark], exact: tuple[float, float, float] | None, words: str, up: bool
) -> None:
    _scales(axis, marks, up)
    if exact is not None:
        axis.axhspan(exact[1], exact[2], color=colour("exact"), alpha=0.13, lw=0)
        axis.axhline(exact[0], ls="--", lw=1.2, color=colour("exact"))
        axis.annotate(
            "exact", (0, exact[0]), (4, 3), xycoords=("axes fraction", "data"), textcoords="offset points", fontsize=8.5
        )
    best = front(marks, up)
    axis.plot(
        [one.work for one in best], [one.middle for one in best], color=INK, lw=0.9, ls=":", drawstyle="steps-post"
    )
    for mark in marks:
        low, high = arms_of(mark.middle, mark.low, mark.high)
        axis.errorbar(
            mark.work, mark.middle, yerr=[[low], [high]], marker="o", ms=7, lw=1.5, capsize=2.5, color=colour(mark.arm)
        )
    _name(axis, marks)
    axis.set_xlabel("work, % of exact prefill")
    axis.set_ylabel(words)


def _scales(axis: Axes, marks: Sequence[Mark], up: bool) -> None:
    work = [mark.work for mark in marks]
    room = max(1.0, 0.06 * (max(work) - min(work)))
    axis.set_xlim(min(work) - room, max(work) + room)
    if up:
        axis.set_ylim(-4, 106)
        return
    axis.set_yscale("symlog", linthresh=LINEAR, linscale=0.45)
    low, high = min(0.0, *(mark.low for mark in marks)), max(LINEAR, *(mark.high for mark in marks))
    axis.set_ylim(low - 0.3 * LINEAR if low > -LINEAR else 1.4 * low, 1.4 * high)
    ticks = [tick for tick in TICKS if axis.get_ylim()[0] <= tick <= axis.get_ylim()[1]]
    axis.set_yticks(ticks, [f"{tick:g}".replace("-", "\u2212") for tick in ticks])
    axis.minorticks_off()


def _name(axis: Axes, marks: Sequence[Mark]) -> None:
    """One label per arm in a column right of the axis, each with a line to its point."""
    marks = sorted(marks, key=lambda one: (one.middle, one.work))
    spots = [axis.transLimits.transform(axis.transScale.transform((mark.work, mark.middle))) for mark in marks]
    # The topmost label stays clear of the panel's title.
    places = [ROOM * place for place in spread([float(spot[1]) / ROOM for spot in spots], line_share(axis) / ROOM)]
    for mark, place in zip(marks, places, strict=True):
        axis.annotate(
            arm_label(mark.arm), (mark.work, mark.middle), (1.035, place), textcoords="axes fraction", fontsize=8.5,
            va="center", annotation_clip=False,
            arrowprops={"color": colour(mark.arm), **LEADER},
        )  # fmt: skip
