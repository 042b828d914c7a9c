"""Tables of text: one panel per model or experiment, all panels of a table with the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ridgefill.paper.data import Cell
from ridgefill.paper.ours import OurCell

WIDTH = 100
Shown = Cell | OurCell


@dataclass(frozen=True)
class Panel:
    """Texts by row and column; ``heading`` stands above."""

    heading: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    texts: dict[tuple[str, str], str]

    def column(self, name: str) -> list[str]:
        """The texts of one column."""
        return [self.texts[row, name] for row in self.rows if (row, name) in self.texts]


def make_panel(heading: str, cells: Sequence[Shown], layout: str) -> Panel:
    """Place each cell by the table's layout: arms, measures or splits down; measures or arms across."""
    placed = [(_place(cell, layout), cell) for cell in cells]
    return Panel(
        heading=heading,
        rows=tuple(dict.fromkeys(row for (row, _), _ in placed)),
        columns=tuple(dict.fromkeys(column for (_, column), _ in placed)),
        texts={place: show(cell) for place, cell in placed},
    )


def _place(cell: Shown, layout: str) -> tuple[str, str]:
    """Row and column of one cell."""
    arm = f"{cell.arm} - {cell.baseline}" if cell.baseline else cell.arm
    at = "/".join(str(one) for one in (cell.split, cell.tail) if one is not None)
    if layout == "metrics":
        return cell.metric, arm
    if layout == "splits":
        return f"split/tail {at}" if at else cell.arm, arm
    return f"{arm} {at}".rstrip(), cell.metric


def show(cell: Shown) -> str:
    """``+0.501 [+0.307, +0.748] (126)``: value, interval, n; or why there is none."""
    if cell.value is None:
        return cell.status
    if isinstance(cell, OurCell):
        return _ours(cell)
    signed = cell.unit == "points" or (cell.metric.startswith("nll_") and not cell.metric.endswith("_absolute"))
    value, low, high = (_signed(text, signed) if text else None for text in (cell.value, cell.ci_low, cell.ci_high))
    interval = "" if low is None else f" [{low}, {high}]" if high else f" [from {low}]"
    point = f"{value}*" if cell.status in ("derived", "elsewhere") else f"{value}"
    return f"{point}{interval}" + (f" ({cell.n})" if cell.n else "")


def _ours(cell: OurCell) -> str:
    decimals = 1 if cell.measure.startswith(("ruler", "turn", "agreement_top1")) else 3
    numbers = [number for number in (cell.value, cell.ci_low, cell.ci_high) if number is not None]
    value, low, high = (_signed(f"{number:.{decimals}f}", bool(cell.against)) for number in numbers)
    mark = "" if cell.status == "ok" else f" {cell.status}"
    return f"{value} [{low}, {high}] ({cell.n}){mark}"


def _signed(text: str, signed: bool) -> str:
    text = text.removeprefix("-") if float(text) == 0 else text
    return f"+{text}" if signed and float(text) > 0 else text


def render(panels: Sequence[Panel], width: int = WIDTH) -> str:
    """Panels one below the other, their columns lined up; columns that do not fit go into further blocks."""
    label = max(len(row) for panel in panels for row in panel.rows)
    columns = dict.fromkeys(column for panel in panels for column in panel.columns)
    sizes = {
        column: max(len(text) for panel in panels for text in (column, *panel.column(column))) for column in columns
    }
    blocks = [block for panel in panels for block in _blocks(panel, label, sizes, width)]
    return "\n\n".join(blocks)


def _blocks(panel: Panel, label: int, sizes: dict[str, int], width: int) -> list[str]:
    """One panel as text, split into blocks of columns that fit."""
    groups: list[list[str]] = []
    for column in (column for column in sizes if column in panel.columns):
        used = label + sum(sizes[one] + 2 for one in groups[-1]) if groups else width
        if used + sizes[column] + 2 > width:
            groups.append([])
        groups[-1].append(column)
    found = []
    for number, columns in enumerate(groups):
        lines = [panel.heading + (" (further columns)" if number else "")]
        lines.append(" " * label + "".join(f"  {column:>{sizes[column]}}" for column in columns))
        for row in panel.rows:
            if any((row, column) in panel.texts for column in columns):
                texts = [f"  {panel.texts.get((row, column), ''):>{sizes[column]}}" for column in columns]
                lines.append(f"{row:<{label}}" + "".join(texts))
        found.append("\n".join(line.rstrip() for line in lines))
    return found
