"""Every reported number again, by another code path: ``ridgefill recompute results/NAME``.

Nothing here uses SQL, :mod:`ridgefill.measures`, :mod:`ridgefill.stats` or :mod:`ridgefill.tables`. Parquet
rows go through plain Python and their own bootstrap, and each number is compared with what ``report.html``,
every ``tables/*.md`` and ``*.csv`` and ``cells.json`` print.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ridgefill.errors import RidgeFillError
from ridgefill.recompute import compare
from ridgefill.recompute.companions import companion_cells
from ridgefill.recompute.data import Data
from ridgefill.recompute.expected import Cells, expected_cells
from ridgefill.recompute.facts import unpinned, wrong_facts
from ridgefill.recompute.longbench import wrong_answers
from ridgefill.recompute.rules import verdict_cells
from ridgefill.recompute.scores import wrong_scores
from ridgefill.results import write_json

VERIFICATION_VERSION = 1
# Reports whose cells.json has an earlier version were made before these tables were printed.
COMPANIONS_FROM = 2
_SHOWN = 40


@dataclass(frozen=True)
class Mismatch:
    """One disagreement: in which file, which cell, what it prints and what was recomputed."""

    file: str
    cell: str
    printed: str
    recomputed: str

    def __str__(self) -> str:
        return f"{self.file}: {self.cell}: printed {self.printed!r}, recomputed {self.recomputed}"


@dataclass(frozen=True)
class Report:
    """Numbers compared, by table, the places they were compared in, and every mismatch."""

    counts: dict[str, int]
    files: int
    mismatches: tuple[Mismatch, ...]

    @property
    def cells(self) -> int:
        return sum(self.counts.values())


def recompute(results_dir: Path | str) -> Report:
    """Check a rendered results folder. Raises ResultsError when files are missing or unreadable."""
    root = Path(results_dir)
    data = Data(root)
    document = compare.read_document(root)
    cells = {**expected_cells(data), **verdict_cells(root, data)}
    if compare.version_of(document) >= COMPANIONS_FROM:
        cells |= companion_cells(data)
    counts: dict[str, int] = {}
    for identity in cells:
        table = identity.split(".", 1)[0]
        counts[table] = counts.get(table, 0) + 1
    checks: list[tuple[str, Iterator[tuple[str, str, str]]]] = [
        ("report.html", compare.in_report(root / "report.html", cells)),
        ("cells.json", compare.in_cells(document, cells)),
    ]
    for name, layout in document["tables"].items():
        for suffix, check in _FORMATS.items():
            checks.append((f"tables/{name}{suffix}", check(root / "tables" / f"{name}{suffix}", layout, cells)))
    files = len(checks)
    checks += [("rows", wrong_scores(data)), ("rows", wrong_answers(data))]
    checks += [("cells.json", wrong_facts(root, document, cells))]
    checks += [("files", compare.changed_files(root, document)), ("files", unpinned(root, document))]
    found = chain.from_iterable((Mismatch(file, *each) for each in check) for file, check in checks)
    return Report(counts, files, tuple(found))


_FORMATS: dict[str, Callable[[Path, Sequence[Sequence[object]], Cells], Iterator[tuple[str, str, str]]]] = {
    ".md": compare.in_markdown,
    ".csv": compare.in_csv,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the counts and each mismatch, write ``verification.json``; 0 when everything agrees, else 1."""
    parser = argparse.ArgumentParser(prog="ridgefill recompute", description=recompute.__doc__)
    parser.add_argument("results", type=Path, help="a rendered results folder, such as results/smollm2_split19")
    arguments = parser.parse_args(argv)
    try:
        report = recompute(arguments.results)
        write_report(arguments.results, report)
    except RidgeFillError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(describe(report))
    return 1 if report.mismatches else 0


def describe(report: Report) -> str:
    """The outcome as text: a line per table, each mismatch, and a last line that sums up."""
    lines = [f"  {table:<12} {count:>5} numbers" for table, count in report.counts.items()]
    lines += [f"  MISMATCH {mismatch}" for mismatch in report.mismatches[:_SHOWN]]
    hidden = len(report.mismatches) - _SHOWN
    if hidden > 0:
        lines.append(f"  and {hidden} more in verification.json")
    outcome = f"{len(report.mismatches)} mismatches" if report.mismatches else "all agree"
    return "\n".join([*lines, f"{report.cells} numbers recomputed, compared in {report.files} files: {outcome}\n"])


def write_report(root: Path, report: Report) -> None:
    """Write the counts and every mismatch to ``verification.json``."""
    document = {
        "version": VERIFICATION_VERSION,
        "passed": not report.mismatches,
        "numbers": report.cells,
        "files": report.files,
        "tables": report.counts,
        "mismatches": [vars(mismatch) for mismatch in report.mismatches],
    }
    write_json(root / "verification.json", document)
