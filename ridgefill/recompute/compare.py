"""What the report, the tables and ``cells.json`` print, held against what was recomputed."""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.recompute.expected import Cells, Expected
from ridgefill.results import read_json

NOT_MEASURED = "n/a"
VERSIONS = (1, 2)
# Sums differ in their last bits between the two code paths; ten decimals decide how a tie is rounded.
STABLE_DECIMALS = 10
_NUMBER = re.compile(r"[+\u2212-]?\d[\d,]*(?:\.\d+)?(?:e[+-]\d+)?|n/a")


class _Spans(HTMLParser):
    """Texts of the elements that carry ``data-cell``, by id."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: dict[str, list[str]] = {}
        self._open: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open = dict(attrs).get("data-cell")
        if self._open is not None:
            self.texts.setdefault(self._open, []).append("")

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self.texts[self._open][-1] += data

    def handle_endtag(self, tag: str) -> None:
        self._open = None


def agrees(text: str, expected: Expected) -> bool:
    """Whether a printed text is ``expected`` rounded to the digits it must have."""
    if expected.value is None:
        return text in ("", NOT_MEASURED)
    if isinstance(expected.value, str):
        return text == expected.value
    plain = text.replace("\u2212", "-").replace(",", "")
    try:
        number = Decimal(plain)
    except InvalidOperation:
        return False
    mantissa, _, power = plain.partition("e")
    digits = len(mantissa.partition(".")[2])
    if digits != expected.digits or bool(power) != expected.scientific:
        return False
    if expected.signed != plain.startswith("+") and number > 0:
        return False
    unit = Decimal(1).scaleb(int(power or 0) - digits)
    exact = float(expected.value)
    stable = Decimal(exact if expected.scientific else round(exact, STABLE_DECIMALS))
    return number == stable.quantize(unit, rounding=ROUND_HALF_EVEN)


def in_report(path: Path, cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Mismatches of the report as (cell, printed, why)."""
    spans = _Spans()
    spans.feed(_read(path))
    yield from _unknown(spans.texts, cells)
    for identity, expected in cells.items():
        texts = spans.texts.get(identity)
        if not texts:
            yield identity, "", "is not printed"
        for text in texts or ():
            if not agrees(text, expected):
                yield identity, text, shown(expected)


def in_cells(document: Mapping[str, Any], cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Mismatches of ``cells.json``: the unrounded values, and their printed forms."""
    printed = document["cells"]
    yield from _unknown(printed, cells)
    for identity, expected in cells.items():
        cell = printed.get(identity)
        if cell is None:
            yield identity, "", "is not in cells.json"
        elif not _same(cell["value"], expected.raw):
            yield identity, str(cell["value"]), f"value {expected.raw}"
        elif not agrees(cell["text"], expected):
            yield identity, str(cell["text"]), shown(expected)


def in_csv(path: Path, layout: Sequence[Sequence[Any]], cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Mismatches of one CSV table."""
    head, *body = list(csv.reader(_read(path).splitlines())) or [[]]
    for number, (line, row) in enumerate(zip(body, layout, strict=False)):
        printed, place = dict(zip(head, line, strict=False)), 0
        for entry in row:
            identities = entry if isinstance(entry, list) else []
            name = head[place] if place < len(head) else ""
            yield from _labelled(entry, printed.get(name, ""), number, name)
            keys = [name, f"{name}_low", f"{name}_high"]
            yield from _each(identities, [printed.get(key, "") for key in keys], cells)
            place += 3 if f"{name}_low" in head else 1
    if len(body) != len(layout):
        yield path.name, f"{len(body)} rows", f"{len(layout)} rows"


def in_markdown(path: Path, layout: Sequence[Sequence[Any]], cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Mismatches of one Markdown table."""
    heads, *lines = [line for number, line in enumerate(_read(path).splitlines()) if number != 1] or [""]
    for number, (line, row) in enumerate(zip(lines, layout, strict=False)):
        places = _places(line)
        for head, place, entry in zip(_places(heads), places, row, strict=False):
            yield from _labelled(entry, place.replace("\\|", "|"), number, head)
            if isinstance(entry, list):
                words = [cells[i].value for i in entry if i in cells and isinstance(cells[i].value, str)]
                texts = [place] if words else _NUMBER.findall(place)
                yield from _each(entry, texts, cells)
    if len(lines) != len(layout):
        yield path.name, f"{len(lines)} rows", f"{len(layout)} rows"


def changed_files(root: Path, document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Files whose bytes are not those that were read or written when the report was made."""
    for role, files in (("read", document["inputs"]), ("written", document["outputs"])):
        for name, digest in files.items():
            path = root / name
            found = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
            if found != digest:
                yield name, found[:12], f"the bytes {role} for the report, SHA-256 {digest[:12]}"


def read_document(root: Path) -> dict[str, Any]:
    """``cells.json``, with the parts that the comparison needs."""
    document: dict[str, Any] = read_json(root / "cells.json")
    parts = ("inputs", "outputs", "tables", "cells")
    whole = isinstance(document, dict) and all(isinstance(document.get(part), dict) for part in parts)
    if not whole or not all(
        isinstance(cell, dict) and {"value", "text"} <= set(cell) for cell in document["cells"].values()
    ):
        raise ResultsError(
            f"{root / 'cells.json'} lacks some of {list(parts)} or a cell its text; render the report again"
        )
    return document


def version_of(document: Mapping[str, Any]) -> int:
    """Which tables a report has; ResultsError for one of a later ridgefill."""
    version = document.get("version", 1)
    if version not in VERSIONS:
        raise ResultsError(
            f"cells.json has the version {version!r}; expected one of {list(VERSIONS)}. Recompute it with the "
            "ridgefill that made it"
        )
    return int(version)


def shown(expected: Expected) -> str:
    """An expected value for a message."""
    if expected.value is None or isinstance(expected.value, str):
        return str(expected.value or NOT_MEASURED)
    return f"{float(expected.value):.{expected.digits + 3}{'e' if expected.scientific else 'f'}}"


def _each(identities: Sequence[str], texts: Sequence[str], cells: Cells) -> Iterator[tuple[str, str, str]]:
    for index, identity in enumerate(identities):
        text = texts[index] if index < len(texts) else ""
        if identity not in cells:
            yield identity, text, "no such number can be recomputed"
        elif not agrees(text, cells[identity]):
            yield identity, text, shown(cells[identity])


def _places(line: str) -> list[str]:
    """The cells of one line of a Markdown table."""
    return [place.strip() for place in re.split(r"(?<!\\)\|", line)[1:-1]]


def _labelled(entry: Any, printed: str, number: int, head: str) -> Iterator[tuple[str, str, str]]:
    """A mismatch when a label is not printed as ``cells.json`` has it."""
    if isinstance(entry, str) and printed != entry.replace("\n", " ").strip():
        yield f"row {number + 1}, {head}", printed, f"the label {entry!r}"


def _unknown(printed: Mapping[str, Any], cells: Cells) -> Iterator[tuple[str, str, str]]:
    for identity in printed:
        if identity not in cells:
            yield identity, "", "no such number can be recomputed"


def _same(stored: Any, recomputed: Any) -> bool:
    if isinstance(recomputed, float) and isinstance(stored, int | float):
        return abs(stored - recomputed) <= 1e-9 * max(1.0, abs(recomputed))
    return bool(stored == recomputed)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path} is not readable ({error}); render the report again") from error
