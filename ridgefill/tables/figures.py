"""The figures, drawn from the cells of the tables, so that every point is a number that is checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from ridgefill.tables.cost import SUITE_LABELS
from ridgefill.tables.fitting import COMPONENTS
from ridgefill.tables.folder import arm_label, arm_order
from ridgefill.tables.grid import Table
from ridgefill.tables.history import History
from ridgefill.tables.labels import line_share, spread
from ridgefill.tables.pareto import pareto_panels
from ridgefill.tables.points import Cells, ids, points, value
from ridgefill.tables.style import SEQUENCE, SETTINGS, Panel, colour, draw, inline, save
from ridgefill.tables.timeline import timeline_panels
from ridgefill.tables.widths import width_panels

TIMELINE = (
    "One bar per attempt: filled where the printed numbers are its own, hollow where a later attempt replaced it, red "
    "where it failed or has no result. Triangle: registered. Diamond: amended. Cross: voided. Times are UTC by the "
    "writer's clock; grey strips are pauses, cut short."
)


@dataclass(frozen=True)
class Picture:
    """One figure: files to write by extension, and two inline SVGs, for wide and narrow screens."""

    name: str
    title: str
    caption: str
    png: bytes
    svg: bytes
    wide: str
    narrow: str


@dataclass(frozen=True)
class Plan:
    """A figure before it is drawn: height of a row of panels in inches, panels per row on wide and narrow screens."""

    name: str
    title: str
    caption: str
    panels: Sequence[Panel]
    height: float
    per_row: int
    narrow: int = 1


def pictures(tables: Iterable[Table]) -> list[Picture]:
    """Draw all figures; one whose numbers are absent is left out."""
    cells = {cell.id: cell for table in tables for cell in table.cells()}
    return [_drawn(plan) for plan in _plans(cells) if plan.panels]


def timeline_pictures(history: History | None) -> list[Picture]:
    """The picture of the ledger's entries; none without a ledger."""
    panels, height = timeline_panels(history)
    plan = Plan("timeline", "Ledger timeline", TIMELINE, panels, height, 1)
    return [_drawn(plan)] if panels else []


def _drawn(plan: Plan) -> Picture:
    with mpl.rc_context(SETTINGS):
        wide = draw(plan.panels, plan.height, True, plan.per_row, plan.narrow)
        svg, png = save(wide, "svg", plan.name), save(wide, "png", plan.name)
        small = save(draw(plan.panels, plan.height, False, plan.per_row, plan.narrow), "svg", f"{plan.name}-narrow")
    shown = {"wide": inline(svg, plan.title, "wide"), "narrow": inline(small, plan.title, "narrow")}
    return Picture(plan.name, plan.title, plan.caption, png, svg, **shown)


def _plans(cells: Cells) -> list[Plan]:
    bars = "Bars: 95\u00a0% intervals."
    curve = f"{bars} Dashed: the exact arm."
    lam = "Ringed: the lam chosen for each split."
    tasks = f"Points, all samples. {bars}"
    cost = "Ring: counted work, whose inverse is the ceiling. Dot: measured time. Both against exact prefill."
    pareto = (
        f"Every arm at the primary split, POP at its own. {bars} Dashed: exact, at 100\u00a0% of the work. Dotted: "
        "the arms that no other arm matches or beats in both. The scale of losses is linear up to 0.01 nats, then "
        "logarithmic."
    )
    widths = (
        "Every printed interval of the tables above is one dot. Dashed: the widest that a normal interval for a mean "
        "of scores from 0 to 100 can be, 2 \u00d7 1.96 \u00d7 50 / \u221an; a difference of two arms can be wider. "
        "Intervals of losses without width are left out."
    )
    panels, height = pareto_panels(cells)
    return [
        Plan("pareto", "Quality against work", pareto, panels, height, 1),
        Plan("split_curve", "Where to split", curve, _curve_panels(cells), 3.1, 2),
        Plan("lengths", "RULER by length", tasks, _length_panels(cells), 2.9, 2),
        Plan("tasks", "RULER by task", tasks, *_task_panels(cells)),
        Plan("lam_curve", "Choosing lam", lam, _lam_panels(cells), 3.1, 2),
        Plan("widths", "How wide the intervals are", widths, width_panels(cells), 3.3, 2),
        Plan("cost", "Counted work and measured time", cost, *_cost_panels(cells)),
    ]


def _curve_panels(cells: Cells) -> list[Panel]:
    spots = {(int(split), arm) for split, arm, _ in ids(cells, "split_curve", 3)}
    splits, arms = sorted({s for s, _ in spots}), sorted({a for _, a in spots}, key=arm_order)

    def paint(axis: Axes, first: bool, metric: str, words: str) -> None:
        for arm in arms:
            where, values, errors = points(cells, [f"split_curve.{s}.{arm}.{metric}" for s in splits])
            at = [splits[i] for i in where]
            look: dict[str, Any] = {
                "marker": "o",
                "lw": 2,
                "capsize": 3,
                "color": colour(arm),
                "label": arm_label(arm),
            }
            axis.errorbar(at, values, yerr=errors, **look)
        exact = value(cells, f"main.exact.{metric}") if metric.startswith("ruler") else 0.0
        if exact is not None:
            axis.axhline(exact, ls="--", lw=1.2, color=colour("exact"), label="exact")
        axis.set_xticks(splits)
        axis.set_xlabel("split layer")
        axis.set_ylabel(words)
        if metric.startswith("ruler"):
            axis.set_ylim(-4, 106)
            axis.legend(frameon=False, fontsize=9, loc="best")

    if not spots:
        return []
    return [
        ("Retrieval in the filled region", partial(paint, metric="ruler_filled", words="RULER points")),
        ("Loss on key tokens", partial(paint, metric="nll_key", words="nats above exact")),
    ]


def _length_panels(cells: Cells) -> list[Panel]:
    """One panel per task, over prompt length; none where there is one length, which the figure of tasks shows."""
    found = ids(cells, "tasks", 3)
    arms = sorted({arm for arm, _, _ in found}, key=arm_order)
    tasks, lengths = sorted({task for _, task, _ in found}), sorted({int(length) for *_, length in found})

    def paint(axis: Axes, first: bool, task: str) -> None:
        for arm in arms:
            where, values, errors = points(cells, [f"tasks.{arm}.{task}.{length}" for length in lengths])
            axis.errorbar([lengths[i] for i in where], values, yerr=errors, marker="o", lw=2, capsize=3,
                          color=colour(arm), label=arm_label(arm))  # fmt: skip
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [f"{length:,}" for length in lengths])
        axis.minorticks_off()
        axis.set_ylim(-4, 106)
        axis.set_xlabel("prompt length, tokens")
        if first and task == tasks[0]:
            axis.legend(frameon=False, fontsize=8.5, loc="best")

    return [(_task_words(task), partial(paint, task=task)) for task in tasks] if len(lengths) > 1 else []


def _lam_panels(cells: Cells) -> list[Panel]:
    # The lam in an id may hold a point itself, so ids are taken apart from both ends.
    curves: dict[tuple[int, str], list[tuple[float, str]]] = {}
    for identity in (identity for identity in cells if identity.startswith("lam.")):
        split, rest = identity.removeprefix("lam.").split(".", 1)
        lam, part = rest.rsplit(".", 1)
        curves.setdefault((int(split), part), []).append((float(lam), identity))
    splits = sorted({split for split, _ in curves})

    def paint(axis: Axes, first: bool, part: str) -> None:
        ends: dict[str, tuple[float, float]] = {}
        for index, split in enumerate(splits):
            found = [(lam, value(cells, identity)) for lam, identity in sorted(curves.get((split, part), []))]
            line = [(lam, cosine) for lam, cosine in found if cosine is not None]
            shade = SEQUENCE[index % len(SEQUENCE)]
            axis.plot([x for x, _ in line], [y for _, y in line], marker="o", ms=4, lw=2, color=shade)
            chosen = cells.get(f"fit.{split}.lam")
            for lam, cosine in line:
                if chosen is not None and str(chosen.value) == f"{lam:g}":
                    axis.plot([lam], [cosine], "o", ms=11, mfc="none", mec=shade, mew=1.8)
            if line:
                ends[f"split {split}"] = line[-1]
        lams = sorted({lam for line in curves.values() for lam, _ in line})
        axis.set_xscale("log")
        axis.set_xticks(lams[::2], [f"{lam:g}" for lam in lams[::2]])
        axis.minorticks_off()
        axis.set_xlim(lams[0] / 1.3, lams[-1] * 3.6)
        axis.set_xlabel("lam")
        axis.set_ylabel("mean cosine")
        axis.autoscale_view(scalex=False)
        places = [max(0.05, float(axis.transLimits.transform((0, y))[1])) for _, y in ends.values()]
        heights = spread(places, line_share(axis))
        for (words, (lam, _)), height in zip(ends.items(), heights, strict=True):
            axis.annotate(words, (lam, height), (8, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
                          va="center", fontsize=9)  # fmt: skip

    parts = [part for part in COMPONENTS if any(p == part for _, p in curves)]
    return [(f"What late layers write: {COMPONENTS[p]}", partial(paint, part=p)) for p in parts]


def _arm_axis(axis: Axes, arms: Sequence[str], named: bool) -> None:
    axis.set_yticks(range(len(arms)), [arm_label(arm) for arm in arms] if named else [""] * len(arms))
    axis.set_ylim(len(arms) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)


def _arm_height(arms: Sequence[str]) -> float:
    """Inches of a panel with one row per arm."""
    return 0.85 + 0.2 * len(arms)


def _task_words(task: str) -> str:
    return task.removeprefix("niah_").replace("_", " ")


def _task_panels(cells: Cells) -> tuple[list[Panel], float, int]:
    """Panels, their height, and how many stand in a wide row."""
    found = ids(cells, "tasks", 3)
    sets = sorted({(task, int(length)) for _, task, length in found})
    arms = sorted({arm for arm, _, _ in found}, key=arm_order)

    def paint(axis: Axes, first: bool, task: str, length: int) -> None:
        where, values, errors = points(cells, [f"tasks.{arm}.{task}.{length}" for arm in arms])
        for row, mean, low, high in zip(where, values, *errors, strict=True):
            axis.errorbar(mean, row, xerr=[[low], [high]], marker="o", ms=6, lw=1.8, color=colour(arms[row]))
        _arm_axis(axis, arms, first)
        axis.set_xlim(-5, 105)
        axis.set_xticks([0, 50, 100])

    lengths = len({length for _, length in sets})
    panels: list[Panel] = [
        (_task_words(task) + (f", {length}" if lengths > 1 else ""), partial(paint, task=task, length=length))
        for task, length in sets
    ]
    return panels, _arm_height(arms), 4


def _cost_panels(cells: Cells) -> tuple[list[Panel], float, int]:
    """Panels, their height, and how many stand in a wide row."""
    found = [words for words in ids(cells, "cost", 3) if words[2] == "mac_share"]
    arms = sorted({arm for _, arm, _ in found}, key=arm_order)

    def paint(axis: Axes, first: bool, suite: str) -> None:
        for row, arm in enumerate(arms):
            work, time = (value(cells, f"cost.{suite}.{arm}.{k}_share") for k in ("mac", "measured"))
            if work is not None and time is not None:
                axis.plot([100 * work, 100 * time], [row, row], color=colour(arm), lw=2.2, alpha=0.55)
            if work is not None:
                axis.plot(100 * work, row, "o", ms=8, mfc="none", mew=2, color=colour(arm))
            if time is not None:
                axis.plot(100 * time, row, "o", ms=7, color=colour(arm))
        _arm_axis(axis, arms, first)
        axis.set_xlabel("% of exact prefill")

    suites = list(dict.fromkeys(suite for suite, _, _ in found))
    panels: list[Panel] = [(SUITE_LABELS.get(suite, suite), partial(paint, suite=suite)) for suite in suites]
    return panels, _arm_height(arms) + 0.35, 2
