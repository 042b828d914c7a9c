"""Which number is meant: a cell's id, its place in ``cells.json``, or a table, a row and a column."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ridgefill.errors import ConfigError, ResultsError
from ridgefill.recompute.compare import read_document, version_of
from ridgefill.tracing.folders import CELLS, Results

ENDS = (".low", ".high")
_NEAR = 6


@dataclass(frozen=True)
class Report:
    """What a results folder prints: its ``cells.json``, and the headings of each table on demand."""

    results: Results
    document: Mapping[str, Any]

    @property
    def cells(self) -> Mapping[str, Mapping[str, Any]]:
        """Every cell by id, in the order of the file."""
        return self.document["cells"]  # type: ignore[no-any-return]

    @property
    def tables(self) -> Mapping[str, Sequence[Sequence[str | list[str]]]]:
        """Every table's rows: labels, and lists of cell ids."""
        return self.document["tables"]  # type: ignore[no-any-return]

    def headings(self, table: str) -> list[tuple[str, str]]:
        """Of every column, the heading that people read and the name that the CSV file has."""
        try:
            printed = (self.results.path / "tables" / f"{table}.md").read_text("utf-8").splitlines()[0]
            names = next(csv.reader((self.results.path / "tables" / f"{table}.csv").read_text("utf-8").splitlines()))
        except (OSError, UnicodeDecodeError, IndexError, StopIteration) as error:
            raise ResultsError(f"{self.results.path}/tables/{table}.md and .csv cannot be read ({error!r})") from error
        keys = [name for name in names if not _is_end(name, names)]
        heads = [head.strip().replace("\\|", "|") for head in re.split(r"(?<!\\)\|", printed)[1:-1]]
        return list(zip(heads, keys, strict=False))

    def labels(self, table: str) -> list[str]:
        """Of every column its heading, with the CSV file's name behind it where two columns have the same."""
        both = self.headings(table)
        heads = [head for head, _ in both]
        return [head if heads.count(head) == 1 else f"{head}, {key}" for head, key in both]


@dataclass(frozen=True)
class Place:
    """Where a cell is printed: labels of its row, heading of its column, and the whole entry as printed there."""

    table: str
    row: str
    column: str
    printed: str
    ids: tuple[str, ...]


def open_report(results: Results) -> Report:
    """Read what a folder prints; ResultsError when it is damaged or of a later ridgefill."""
    document = read_document(results.path)
    version_of(document)
    return Report(results, document)


def place_of(report: Report, cell: str) -> Place | None:
    """Where the tables print ``cell``; None where only the report does."""
    for table, rows in report.tables.items():
        for number, row in enumerate(rows):
            for column, entry in enumerate(row):
                if isinstance(entry, list) and cell in entry:
                    head = report.labels(table)[column]
                    return Place(table, _label(row), head, _printed(report, table, number, column), tuple(entry))
    return None


def find_cell(report: Report, words: Sequence[str]) -> str:
    """The id that ``words`` stand for. Raises ConfigError that lists what comes near."""
    if len(words) == 1:
        return _by_id(report, words[0])
    if len(words) > 3:
        raise ConfigError(
            f"{len(words)} words name no cell; expected an id, or TABLE ROW COLUMN, each in quotes where it has spaces"
        )
    table = _pick("table", words[0], {name: (name, name.replace("_", " ")) for name in report.tables})
    rows = report.tables[table]
    numbers = {column for row in rows for column, entry in enumerate(row) if isinstance(entry, list)}
    row = _pick("row", words[1], {str(place): _row_names(table, each) for place, each in enumerate(rows)},
                {str(place): _label(each) for place, each in enumerate(rows)}, f" in table {table}")  # fmt: skip
    return _in_row(report, table, int(row), sorted(numbers), words[2] if len(words) > 2 else None)


def _in_row(report: Report, table: str, row: int, numbers: Sequence[int], wanted: str | None) -> str:
    heads, called = report.headings(table), report.labels(table)
    names = {
        f"{column}{end}": (*_column_names(*heads[column], end), f"{called[column]}{end}")
        for column in numbers
        # Ends of intervals are columns of their own only for who asks for one.
        for end in ("", *(ENDS if wanted and wanted.casefold().endswith(("low", "high")) else ()))
    }
    if wanted is None and len(numbers) > 1:
        columns = "; ".join(called[column] for column in numbers)
        raise ConfigError(f"table {table} has several numbers in a row; add the column, one of: {columns}")
    labels = {key: called[int(key.split(".")[0])] + "".join(key.partition(".")[1:]) for key in names}
    found = str(numbers[0]) if wanted is None else _pick("column", wanted, names, labels, f" in table {table}")
    column, _, end = found.partition(".")
    ids = [one for one in _ids(report.tables[table][row][int(column)]) if one.endswith(f".{end}" if end else "")]
    if not ids:
        label = _label(report.tables[table][row])
        raise ConfigError(f"table {table} has no number at row {label!r} and column {labels[found]!r}")
    return ids[0]


def _by_id(report: Report, word: str) -> str:
    ids = list(report.cells)
    if word in report.cells:
        return word
    if word.isdecimal():
        if int(word) < len(ids):
            return ids[int(word)]
        raise ConfigError(f"{CELLS} of {report.results.name} has cells 0 to {len(ids) - 1}, and no {word}")
    inside = [one for one in ids if word.casefold() in one.casefold() and not one.endswith(ENDS)]
    near = inside or get_close_matches(word, ids, _NEAR, 0.6)
    listed = _listed(near) if near else f"tables {', '.join(report.tables)}"
    raise ConfigError(
        f"{report.results.name} prints no cell {word!r}; near it: {listed}. Give an id, or TABLE ROW COLUMN"
    )


def _pick(
    what: str, word: str, names: Mapping[str, Sequence[str]], labels: Mapping[str, str] | None = None, where: str = ""
) -> str:
    """The key whose names have ``word``; else the only one of which some name contains its words."""
    shown = labels or {key: key for key in names}
    wanted = _plain(word)
    exact = [key for key, known in names.items() if wanted in map(_plain, known)]
    found = exact or [key for key, known in names.items() if any(_contains(_plain(one), wanted) for one in known)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{word!r} is more than one {what}{where}: {_listed([shown[key] for key in found])}")
    near = get_close_matches(wanted, [_plain(one) for one in shown.values()], _NEAR, 0.5)
    close = [label for label in shown.values() if _plain(label) in near] or list(shown.values())
    raise ConfigError(f"no {what} {word!r}{where}; there is {_listed(close)}")


def _listed(items: Sequence[str]) -> str:
    hidden = len(items) - 2 * _NEAR
    return "; ".join(items[: 2 * _NEAR]) + (f"; and {hidden} more" if hidden > 0 else "")


def _plain(text: str) -> str:
    """For comparing: no case, typographic signs as keys type them, runs of spaces as one."""
    for sign, key in (("\u2212", "-"), ("\u00a0", " "), ("\u0394", "delta"), ("\u00d7", "x"), ("\u2013", "-")):
        text = text.replace(sign, key)
    return " ".join(text.replace("_", " ").split()).casefold()


def _contains(name: str, wanted: str) -> bool:
    return bool(wanted) and all(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", name) for word in wanted.split())


def _label(row: Sequence[str | list[str]]) -> str:
    return ", ".join(entry for entry in row if isinstance(entry, str) and entry not in ("", "\u2013"))


def _row_names(table: str, row: Sequence[str | list[str]]) -> list[str]:
    """A row's labels, alone and together, and what the ids of its cells share."""
    labels = [entry for entry in row if isinstance(entry, str) and entry not in ("", "\u2013")]
    names = [*labels, ", ".join(labels), " ".join(labels)]
    ids = [one.removeprefix(f"{table}.") for entry in row for one in _ids(entry) if not one.endswith(ENDS)]
    if ids:
        parts = [one.split(".") for one in ids]
        same = next((place for place, each in enumerate(zip(*parts, strict=False)) if len(set(each)) > 1), None)
        shared = parts[0][: (same if same is not None else len(parts[0]) - (len(ids) > 1))]
        names += [".".join(shared), " ".join(shared)]
    return [name for name in names if name]


def _column_names(head: str, key: str, end: str) -> tuple[str, ...]:
    bare = re.sub(r" \([^()]*\)$", "", head)
    if end:
        return (*(f"{name}{end}" for name in (head, bare, key)), f"{key}_{end[1:]}", f"{bare} {end[1:]}")
    return head, bare, key


def _is_end(name: str, names: Sequence[str]) -> bool:
    return any(name.endswith(end) and name.removesuffix(end) in names for end in ("_low", "_high"))


def _ids(entry: str | list[str]) -> list[str]:
    return entry if isinstance(entry, list) else []


def _printed(report: Report, table: str, row: int, column: int) -> str:
    path: Path = report.results.path / "tables" / f"{table}.md"
    lines = path.read_text("utf-8").splitlines()[2:]
    places = re.split(r"(?<!\\)\|", lines[row])[1:-1] if row < len(lines) else []
    return places[column].strip() if column < len(places) else ""
