"""Rows of an answer as a table of at most 100 columns, as CSV, or as JSON."""

from __future__ import annotations

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from typing import Any

from ridgefill.tracing.database import Answer, View

WIDTH = 100
SHOWN = 40
"""Rows of a table that are printed unless all are asked for."""
_LEAST = 8
"""Columns that a column may be narrowed to."""
_RECORDS = 5
_DECIMALS = 4
"""Up to as many digits after the point, fractions of a column are made equally long."""
_GAP = "  "


def as_table(answer: Answer, everything: bool = False) -> str:
    """The rows under their headings; one line a column and row where they would not fit side by side.

    Texts are cut to the width of 100; ``everything`` prints all rows, not the first few.
    """
    if not answer.columns:
        return "(no columns)"
    columns = [_column([row[place] for row in answer.rows], kind) for place, kind in enumerate(answer.types)]
    texts = [list(row) for row in zip(*columns, strict=True)]
    widths = _widths(answer.columns, texts)
    wide = widths is None
    shown = texts if everything else texts[: _RECORDS if wide else SHOWN]
    lines = _records(answer.columns, shown) if widths is None else _grid(answer, shown, widths)
    hidden = len(texts) - len(shown)
    rows = "1 row" if len(texts) == 1 else f"{len(texts)} rows"
    lines.append(f"({rows}; {hidden} not shown, add --all or --csv)" if hidden else f"({rows})")
    return "\n".join(lines)


def as_csv(answer: Answer) -> str:
    """Every row, a heading line first; NULL is empty, lists and structures are JSON."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([_plain(value) for value in row] for row in answer.rows)
    return sink.getvalue().rstrip("\n")


def as_json(answer: Answer) -> str:
    """Columns, types and rows as one object; what JSON has no form for is text."""
    found = {"columns": answer.columns, "types": answer.types, "rows": [list(row) for row in answer.rows]}
    return json.dumps(found, ensure_ascii=False, default=str)


def tables_text(views: Sequence[View], everywhere: int) -> str:
    """Every view with its columns; experiments are named where not all of them have the view."""
    lines = []
    for view in views:
        some = f"  (only {', '.join(view.experiments)})" if len(view.experiments) < everywhere else ""
        lines += textwrap.wrap(f"{view.name}{some}", WIDTH, subsequent_indent=" " * 8)
        columns = ", ".join(f"{name} {kind.lower()}" for name, kind in view.columns)
        lines += textwrap.wrap(columns, WIDTH, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join(lines)


def _column(values: Sequence[Any], kind: str) -> list[str]:
    """The texts of a column; decimal fractions get as many digits as the longest of them, so that points line up."""
    digits = 6 if kind == "FLOAT" else 10
    texts = [f"{value:.{digits}g}" if isinstance(value, float) else _text(value) for value in values]
    if not any(isinstance(value, float) for value in values):
        return texts
    places = max(len(text.partition(".")[2]) for text in texts)
    if any("e" in text or "n" in text for text in texts) or places > _DECIMALS:
        return texts
    return [f"{value:.{places}f}" if isinstance(value, float) else text
            for value, text in zip(values, texts, strict=True)]  # fmt: skip


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    text = json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else str(value)
    # Answers of models hold line ends and signs that would steer a terminal.
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _plain(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, list | dict) else value


def _widths(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> list[int] | None:
    """Widths that fit together, the widest narrowed first; None where they do not."""
    widths = [max([len(name), *(len(row[place]) for row in texts)]) for place, name in enumerate(columns)]
    room = WIDTH - len(_GAP) * (len(columns) - 1)
    least = sum(min(width, _LEAST) for width in widths)
    if least > room:
        return None
    while sum(widths) > room:
        widest = widths.index(max(widths))
        following = max([width for width in widths if width < widths[widest]] or [_LEAST])
        same = widths.count(widths[widest])
        cut = max(1, min(widths[widest] - following, (sum(widths) - room) // same))
        widths[widest] -= cut
    return widths


def _grid(answer: Answer, texts: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    numbers = [all(isinstance(row[place], int | float | None) and not isinstance(row[place], bool)
                   for row in answer.rows) and bool(answer.rows) for place in range(len(widths))]  # fmt: skip

    def line(row: Sequence[str]) -> str:
        cells = (_cut(text, width) for text, width in zip(row, widths, strict=True))
        fitted = (text.rjust(width) if number else text.ljust(width)
                  for text, width, number in zip(cells, widths, numbers, strict=True))  # fmt: skip
        return _GAP.join(fitted).rstrip()

    return [line(answer.columns), _GAP.join("-" * width for width in widths), *(line(row) for row in texts)]


def _records(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> list[str]:
    widest = max(len(name) for name in columns)
    lines = []
    for number, row in enumerate(texts):
        lines.append(f"row {number + 1}")
        lines += [_cut(f"  {name:<{widest}}  {text}", WIDTH) for name, text in zip(columns, row, strict=True)]
    return lines


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "\u2026"
