"""The four figures, drawn from the cells of the tables, so that every point is a number that is checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from ridgefill.tables.cost import SUITE_LABELS
from ridgefill.tables.fitting import COMPONENTS
from ridgefill.tables.folder import arm_label, arm_order
from ridgefill.tables.grid import Cell, Table
from ridgefill.tables.style import SEQUENCE, SETTINGS, Panel, colour, draw, inline, save

Cells = Mapping[str, Cell]


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


def pictures(tables: Iterable[Table]) -> list[Picture]:
    """Draw all figures; one whose numbers are absent is left out."""
    cells = {cell.id: cell for table in tables for cell in table.cells()}
    found = []
    with mpl.rc_context(SETTINGS):
        for name, title, caption, panels, height, per_row, narrow in _plans(cells):
            if not panels:
                continue
            wide = draw(panels, height, True, per_row, narrow)
            svg, png = save(wide, "svg", name), save(wide, "png", name)
            small = save(draw(panels, height, False, per_row, narrow), "svg", f"{name}-narrow")
            shown = {"wide": inline(svg, title, "wide"), "narrow": inline(small, title, "narrow")}
            found.append(Picture(name, title, caption, png, svg, **shown))
    return found


def _plans(cells: Cells) -> list[tuple[str, str, str, list[Panel], float, int, int]]:
    """Name, title, caption, panels, height of a row in inches, panels per row on wide and narrow screens."""
    curve = "Bars: 95\u00a0% intervals. Dashed: the exact arm."
    lam = "Ringed: the lam chosen for each split."
    tasks = "Points, all samples, 95\u00a0% intervals."
    cost = "Ring: counted work, whose inverse is the ceiling. Dot: measured time. Both against exact prefill."
    return [
        ("split_curve", "Where to split", curve, _curve_panels(cells), 3.1, 2, 1),
        ("lam_curve", "Choosing lam", lam, _lam_panels(cells), 3.1, 2, 1),
        ("tasks", "RULER by task", tasks, _task_panels(cells), 2.9, 4, 1),
        ("cost", "Counted work and measured time", cost, _cost_panels(cells), 3.2, 2, 1),
    ]


def _ids(cells: Cells, table: str, parts: int) -> list[list[str]]:
    """Split ids of one table that have ``parts`` parts after its name, intervals left out."""
    split = (identity.split(".") for identity in cells if identity.startswith(f"{table}."))
    return [words[1:] for words in split if len(words) == parts + 1 and words[-1] not in ("low", "high")]


def _value(cells: Cells, identity: str) -> float | None:
    cell = cells.get(identity)
    return None if cell is None or cell.value is None else float(cell.value)


def _points(cells: Cells, identities: Sequence[str]) -> tuple[list[int], list[float], list[list[float]]]:
    """Positions, values and two-sided error lengths of the cells that have a value."""
    where: list[int] = []
    values: list[float] = []
    errors: list[list[float]] = [[], []]
    for index, identity in enumerate(identities):
        value = _value(cells, identity)
        if value is None:
            continue
        low, high = (_value(cells, f"{identity}.{end}") for end in ("low", "high"))
        where.append(index)
        values.append(value)
        # A BCa interval need not hold the mean itself; an error bar's arm cannot be negative.
        errors[0].append(max(0.0, value - (value if low is None else low)))
        errors[1].append(max(0.0, (value if high is None else high) - value))
    return where, values, errors


def _curve_panels(cells: Cells) -> list[Panel]:
    points = {(int(split), arm) for split, arm, _ in _ids(cells, "split_curve", 3)}
    splits, arms = sorted({s for s, _ in points}), sorted({a for _, a in points}, key=arm_order)

    def paint(axis: Axes, first: bool, metric: str, words: str) -> None:
        for arm in arms:
            where, values, errors = _points(cells, [f"split_curve.{s}.{arm}.{metric}" for s in splits])
            at = [splits[i] for i in where]
            look: dict[str, Any] = {
                "marker": "o",
                "lw": 2,
                "capsize": 3,
                "color": colour(arm),
                "label": arm_label(arm),
            }
            axis.errorbar(at, values, yerr=errors, **look)
        exact = _value(cells, f"main.exact.{metric}") if metric.startswith("ruler") else 0.0
        if exact is not None:
            axis.axhline(exact, ls="--", lw=1.2, color=colour("exact"), label="exact")
        axis.set_xticks(splits)
        axis.set_xlabel("split layer")
        axis.set_ylabel(words)
        if metric.startswith("ruler"):
            axis.set_ylim(-4, 106)
            axis.legend(frameon=False, fontsize=9, loc="best")

    if not points:
        return []
    return [
        ("Retrieval in the filled region", partial(paint, metric="ruler_filled", words="RULER points")),
        ("Loss on key tokens", partial(paint, metric="nll_key", words="nats above exact")),
    ]


def _lam_panels(cells: Cells) -> list[Panel]:
    # The lam in an id may hold a point itself, so ids are taken apart from both ends.
    points: dict[tuple[int, str], list[tuple[float, str]]] = {}
    for identity in (identity for identity in cells if identity.startswith("lam.")):
        split, rest = identity.removeprefix("lam.").split(".", 1)
        lam, part = rest.rsplit(".", 1)
        points.setdefault((int(split), part), []).append((float(lam), identity))
    splits = sorted({split for split, _ in points})

    def paint(axis: Axes, first: bool, part: str) -> None:
        for index, split in enumerate(splits):
            found = [(lam, _value(cells, identity)) for lam, identity in sorted(points.get((split, part), []))]
            line = [(lam, value) for lam, value in found if value is not None]
            shade = SEQUENCE[index % len(SEQUENCE)]
            axis.plot([x for x, _ in line], [y for _, y in line], marker="o", ms=4, lw=2, color=shade)
            chosen = cells.get(f"fit.{split}.lam")
            for lam, value in line:
                if chosen is not None and str(chosen.value) == f"{lam:g}":
                    axis.plot([lam], [value], "o", ms=11, mfc="none", mec=shade, mew=1.8)
            if line:
                axis.annotate(
                    f"split {split}", (line[-1][0], line[-1][1]), (7, 0), textcoords="offset points",
                    color=shade, va="center", fontsize=9,
                )  # fmt: skip
        lams = sorted({lam for line in points.values() for lam, _ in line})
        axis.set_xscale("log")
        axis.set_xticks(lams[::2], [f"{lam:g}" for lam in lams[::2]])
        axis.minorticks_off()
        axis.set_xlim(lams[0] / 1.3, lams[-1] * 3.6)
        axis.set_xlabel("lam")
        axis.set_ylabel("mean cosine")

    parts = [part for part in COMPONENTS if any(p == part for _, p in points)]
    return [(f"What late layers write: {COMPONENTS[p]}", partial(paint, part=p)) for p in parts]


def _arm_axis(axis: Axes, arms: Sequence[str], named: bool) -> None:
    axis.set_yticks(range(len(arms)), [arm_label(arm) for arm in arms] if named else [""] * len(arms))
    axis.set_ylim(len(arms) - 0.4, -0.6)
    axis.grid(axis="y", visible=False)


def _task_panels(cells: Cells) -> list[Panel]:
    found = _ids(cells, "tasks", 3)
    sets = sorted({(task, int(length)) for _, task, length in found})
    arms = sorted({arm for arm, _, _ in found}, key=arm_order)

    def paint(axis: Axes, first: bool, task: str, length: int) -> None:
        where, values, errors = _points(cells, [f"tasks.{arm}.{task}.{length}" for arm in arms])
        for row, value, low, high in zip(where, values, *errors, strict=True):
            axis.errorbar(value, row, xerr=[[low], [high]], marker="o", ms=6, lw=1.8, color=colour(arms[row]))
        _arm_axis(axis, arms, first)
        axis.set_xlim(-5, 105)
        axis.set_xticks([0, 50, 100])

    lengths = len({length for _, length in sets})
    return [
        (
            task.removeprefix("niah_").replace("_", " ") + (f", {length}" if lengths > 1 else ""),
            partial(paint, task=task, length=length),
        )
        for task, length in sets
    ]


def _cost_panels(cells: Cells) -> list[Panel]:
    found = [words for words in _ids(cells, "cost", 3) if words[2] == "mac_share"]
    arms = sorted({arm for _, arm, _ in found}, key=arm_order)

    def paint(axis: Axes, first: bool, suite: str) -> None:
        for row, arm in enumerate(arms):
            work, time = (_value(cells, f"cost.{suite}.{arm}.{k}_share") for k in ("mac", "measured"))
            if work is not None and time is not None:
                axis.plot([100 * work, 100 * time], [row, row], color=colour(arm), lw=2.2, alpha=0.55)
            if work is not None:
                axis.plot(100 * work, row, "o", ms=8, mfc="none", mew=2, color=colour(arm))
            if time is not None:
                axis.plot(100 * time, row, "o", ms=7, color=colour(arm))
        _arm_axis(axis, arms, first)
        axis.set_xlabel("% of exact prefill")

    suites = list(dict.fromkeys(suite for suite, _, _ in found))
    return [(SUITE_LABELS.get(suite, suite), partial(paint, suite=suite)) for suite in suites]
