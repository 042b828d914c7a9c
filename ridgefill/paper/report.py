"""A published table with ours beside it, as text, as one JSON object, or as CSV."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from ridgefill.errors import ConfigError
from ridgefill.measures import in_points
from ridgefill.paper.correspond import differences
from ridgefill.paper.data import Cell, Entry, Paper
from ridgefill.paper.derive import Outcome
from ridgefill.paper.layout import WIDTH, make_panel, render
from ridgefill.paper.ours import REASONS, Experiment, OurCell, our_cells

POINT_ELSEWHERE = "* the table prints the interval only; the point is the difference of its arms, or stands elsewhere"
COLUMNS = (
    "side", "ref", "experiment", "model", "split", "tail", "arm", "baseline", "metric", "measure", "against", "n",
    "value", "ci_low", "ci_high", "unit", "status", "ledger_entry", "note",
)  # fmt: skip


@dataclass(frozen=True)
class SideBySide:
    """One table of the paper and, apart from it, what stands in its cells for each experiment of ours."""

    entry: Entry
    cells: tuple[Cell, ...]
    ours: tuple[tuple[Experiment, tuple[OurCell, ...]], ...]


def side_by_side(paper: Paper, ref: str, experiments: Sequence[Experiment], model: str | None = None) -> SideBySide:
    """Table ``ref`` beside ``experiments``. ``model`` keeps one model of either side, and all of the other side."""
    entry, cells = paper.table(ref)
    ours = list(experiments)
    if model is not None:
        theirs = {cell.model for cell in cells}
        if model in theirs:
            cells = tuple(cell for cell in cells if cell.model == model)
        elif any(one.settings.model == model for one in ours):
            ours = [one for one in ours if one.settings.model == model]
        else:
            known = ", ".join(sorted(theirs | {one.settings.model for one in ours}))
            raise ConfigError(f"{entry.ref} has no model {model!r}; expected one of {known}")
    return SideBySide(entry, cells, tuple((one, tuple(our_cells(one, cells, entry.layout))) for one in ours))


def as_text(table: SideBySide) -> str:
    """The paper's panels, one per model, then ours, one per experiment, then what differs between the two."""
    layout = table.entry.layout
    models = dict.fromkeys(cell.model for cell in table.cells)
    theirs = [
        make_panel(f"paper: {model}", [cell for cell in table.cells if cell.model == model], layout) for model in models
    ]
    ours = [make_panel(f"ours: {one.settings.experiment}", cells, layout) for one, cells in table.ours if cells]
    legend = [textwrap.fill(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for line in _legend(table)]
    parts = [f"{table.entry.ref}. {table.entry.title}\nvalue [95 % interval] (n)", render(theirs)]
    return "\n\n".join([*parts, *([render(ours)] if ours else []), *(["\n".join(legend)] if legend else [])])


def _legend(table: SideBySide) -> list[str]:
    """What marks and short words mean, where our numbers come from, and how they differ from the paper's."""
    lines = [POINT_ELSEWHERE] if any(cell.status in ("derived", "elsewhere") for cell in table.cells) else []
    if any(cell.ci_low and not cell.ci_high for cell in table.cells):
        lines.append("[from x]: one-sided lower bound, no upper one")
    ours = [cell for _, cells in table.ours for cell in cells]
    lines += [f"{word}: {reason}" for word, reason in REASONS.items() if any(cell.status == word for cell in ours)]
    lines += [f"{one.settings.experiment} ({one.folder}): {one.describe()}" for one, _ in table.ours]
    if any(cell.value is not None for cell in ours):
        there = [cell for cell in ours if cell.value is not None]
        lines += differences([cell.metric for cell in there], [cell.arm for cell in there])
    return lines


def rows(table: SideBySide) -> list[dict[str, Any]]:
    """Every cell of both sides as one row of ``COLUMNS``, the paper's first; the paper's values as printed."""
    blank: dict[str, Any] = dict.fromkeys(COLUMNS)
    names = {field.name for field in fields(Cell)} & set(COLUMNS)
    found = [blank | {name: getattr(cell, name) for name in names} | {"side": "paper"} for cell in table.cells]
    for _, cells in table.ours:
        for cell in cells:
            unit = None if not cell.measure else "points" if in_points(cell.measure) else "nats"
            found.append(blank | asdict(cell) | {"side": "ours", "ref": table.entry.ref, "unit": unit})
    return found


def as_json(table: SideBySide) -> str:
    """One JSON object: ref, title, cells of both sides, and the differences between them."""
    cells = [{key: value for key, value in row.items() if value not in (None, "")} for row in rows(table)]
    differ = differences([cell.metric for cell in table.cells], [cell.arm for cell in table.cells])
    return json.dumps({"ref": table.entry.ref, "title": table.entry.title, "differences": differ, "cells": cells})


def as_csv(table: SideBySide) -> str:
    """One line per cell of either side, with a heading."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows(table))
    return text.getvalue().rstrip("\n")


def listing(paper: Paper) -> list[dict[str, Any]]:
    """Every table: ref, title, models, and how many of its cells hold a number."""
    found = []
    for entry in paper.index:
        _, cells = paper.table(entry.ref)
        models = list(dict.fromkeys(cell.model for cell in cells))
        numbers = sum(cell.value is not None for cell in cells)
        known = {"models": models, "cells": len(cells), "numbers": numbers}
        found.append({"ref": entry.ref, "title": entry.title, **known})
    return found


def listing_text(paper: Paper) -> str:
    """The same for reading."""
    lines = [f"{'table':<10}  {'numbers':>7}  what it shows"]
    lines += [
        f"{one['ref'].removeprefix('Table '):<10}  {one['numbers']:>7}  {one['title']} ({', '.join(one['models'])})"
        for one in listing(paper)
    ]
    return "\n".join(lines)


def outcome_text(outcomes: Sequence[Outcome]) -> str:
    """What does not follow, with both values and why, and how many do."""
    lines = []
    for one in outcomes:
        if not one.holds:
            lines += [f"{one.derivation.target}", f"  published {_span(one.published)}, derived {_span(one.derived)}"]
            lines += [f"  {one.derivation.note or 'unexplained'}"]
    good = sum(one.holds for one in outcomes)
    return "\n".join([*lines, f"{good} of {len(outcomes)} derivations give the published number"])


def _span(found: Any) -> str:
    low, high = f"{float(found.low):.6g}", f"{float(found.high):.6g}"
    return low if low == high else f"{low} to {high}"
