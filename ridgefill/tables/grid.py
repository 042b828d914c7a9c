"""Tables as values: cells with an identity, laid out in a grid, printed as text, Markdown or CSV.

This is the one place where a number becomes text. A cell keeps the exact value, the query and the run it
came from, so that ``cells.json`` can say of every printed number where it was found.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ridgefill.errors import NumericsError

MINUS = "\u2212"
ABSENT = "n/a"

# kind -> (factor, digits after the point, always signed, thousands separators); "power" is scientific.
KINDS: dict[str, tuple[float, int, bool, bool]] = {
    "points": (1.0, 1, False, False),
    "points_difference": (1.0, 1, True, False),
    "nats": (1.0, 3, False, False),
    "nats_difference": (1.0, 3, True, False),
    "points_fine": (1.0, 2, False, False),
    "nats_fine": (1.0, 4, False, False),
    "percent": (100.0, 1, False, False),
    "percent_difference": (100.0, 1, True, True),
    "percent_fine": (100.0, 3, False, False),
    "factor": (1.0, 2, False, False),
    "cosine": (1.0, 4, False, False),
    "p_value": (1.0, 3, False, False),
    "giga": (1e-9, 1, False, True),
    "seconds": (1.0, 2, False, False),
    "count": (1.0, 0, False, True),
}


@dataclass(frozen=True)
class Origin:
    """Where the numbers of a table come from: its query, its run and that run's ledger entry."""

    query: str
    run: str
    ledger_entry: str


@dataclass(frozen=True)
class Cell:
    """One printed value. ``value`` is unrounded (None: not measured), ``n`` the items behind it."""

    id: str
    value: float | int | str | None
    kind: str
    n: int
    origin: Origin
    status: str = "ok"

    @property
    def text(self) -> str:
        """The value as it is printed everywhere (CSV drops the typographic minus and the separators)."""
        return str(self.value) if self.kind == "text" else format_number(self.value, self.kind)


@dataclass(frozen=True)
class Entry:
    """One place of a grid: a label, or a cell with perhaps its interval; ``suffix`` is fixed text.

    ``bar`` in 0..1 draws a bar behind the number in the report, ``strong`` makes it stand out.
    """

    label: str = ""
    cell: Cell | None = None
    low: Cell | None = None
    high: Cell | None = None
    prefix: str = ""
    suffix: str = ""
    bar: float | None = None
    strong: bool = False

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for cell in (self.cell, self.low, self.high) if cell is not None)

    @property
    def text(self) -> str:
        """As printed in Markdown: ``12.5 [10.0, 15.0]``."""
        if self.cell is None:
            return self.label
        interval = f" [{self.low.text}, {self.high.text}]" if self.low and self.high else ""
        return f"{self.prefix}{self.cell.text}{self.suffix}{interval}"


@dataclass(frozen=True)
class Column:
    """``key`` names the CSV column, ``head`` is the printed heading, ``unit`` a small second line of it."""

    key: str
    head: str
    unit: str = ""
    label: bool = False
    interval: bool = False


@dataclass(frozen=True)
class Table:
    """One table: ``rows`` are entries in the order of ``columns``; ``marked`` rows stand out."""

    name: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    marked: frozenset[int] = frozenset()

    def cells(self) -> Iterator[Cell]:
        """Every cell, row by row."""
        return (cell for row in self.rows for entry in row for cell in entry.cells)


def format_number(value: float | int | str | None, kind: str) -> str:
    """Print ``value`` the way its kind says; None is ``n/a``. Raises NumericsError for NaN or infinity."""
    if value is None:
        return ABSENT
    if kind == "power":
        return f"{float(value):.2e}"
    factor, digits, signed, separators = KINDS[kind]
    # Rounding at ten digits first keeps the last bit of a sum from deciding how a tie is rounded.
    number = round(float(value) * factor, 10)
    if not math.isfinite(number):
        raise NumericsError(f"a number of kind {kind!r} to be printed is {value}; it should have been None")
    rounded = round(number, digits) + 0.0
    sign = MINUS if rounded < 0 else "+" if signed and rounded > 0 else ""
    return f"{sign}{abs(rounded):{',' if separators else ''}.{digits}f}"


def csv_text(text: str) -> str:
    """A printed number for machines: ASCII minus, no separators, empty when not measured."""
    return "" if text == ABSENT else text.replace(MINUS, "-").replace(",", "")


def render_markdown(table: Table) -> str:
    """The table as GitHub Markdown: heading row, rule, one line per row, a final newline."""

    def line(texts: Sequence[str]) -> str:
        return "| " + " | ".join(text.replace("|", "\\|").replace("\n", " ") for text in texts) + " |"

    heads = [f"{c.head} ({c.unit})" if c.unit else c.head for c in table.columns]
    rule = [("---" if column.label else "---:") for column in table.columns]
    body = [line([entry.text for entry in row]) for row in table.rows]
    return "\n".join([line(heads), "|" + "|".join(rule) + "|", *body]) + "\n"


def csv_header(table: Table) -> list[str]:
    """Column names: an interval column becomes three."""
    names: list[str] = []
    for column in table.columns:
        names.append(column.key)
        if column.interval:
            names += [f"{column.key}_low", f"{column.key}_high"]
    return names


def csv_row(table: Table, row: Sequence[Entry]) -> list[str]:
    """The texts of one row, as many as :func:`csv_header` has names."""
    texts: list[str] = []
    for column, entry in zip(table.columns, row, strict=True):
        if entry.cell is None:
            texts.append(entry.label)
        else:
            plain = entry.cell.kind == "text"
            texts.append(entry.cell.text if plain else csv_text(entry.cell.text))
        if column.interval:
            texts += [csv_text(cell.text) if cell else "" for cell in (entry.low, entry.high)]
    return texts


def render_csv(table: Table) -> str:
    """The table as CSV with ``\\n`` line ends, numbers rounded as printed."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(csv_header(table))
    writer.writerows(csv_row(table, row) for row in table.rows)
    return sink.getvalue()
