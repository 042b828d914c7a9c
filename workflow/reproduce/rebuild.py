"""One published experiment rendered again into a folder of its own, and every number of both held side by side."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.branches import ledger_home
from ledger.verdicts import Decided
from ridgefill.errors import ResultsError, RidgeFillError
from ridgefill.files import replacing
from ridgefill.recompute import compare as documents
from ridgefill.recompute import recompute, write_report
from ridgefill.results import files_of, write_json
from ridgefill.tables.render import render
from workflow.reporting import NOTES, verdict_row
from workflow.reproduce.cells import CellsCompared, compare_cells
from workflow.reproduce.evidence import PUBLISHED, Evidence
from workflow.reproduce.samples import samples_only

COPIED = ("experiment.json", "provenance.json", "claim.yaml", "overlap.json")
FIGURES = (".png", ".svg")


@dataclass(frozen=True)
class Rebuilt:
    """What came of one experiment. problems: why it is not reproduced, one sentence each.

    checked: numbers that the second code path compared, in the published and in the rebuilt report. figures, redrawn:
    pictures made, and those that today's code draws with other bytes from the same numbers.
    """

    name: str
    tables: int = 0
    figures: int = 0
    redrawn: tuple[str, ...] = ()
    cells: CellsCompared | None = None
    checked: tuple[int, int] = (0, 0)
    samples: int = 0
    problems: tuple[str, ...] = ()


def rebuild(evidence: Evidence, name: str, target: Path) -> Rebuilt:
    """Write ``target``/``name`` anew from the published files, and compare. A failure is in ``problems``."""
    out = target / name
    if out.exists():
        shutil.rmtree(out)
    try:
        # Nothing is rebuilt from bytes that the ledger did not record: it would look like a result.
        found = tuple(evidence.problems(name))
        if found:
            return Rebuilt(name, problems=found)
        source = evidence.root / PUBLISHED / name
        if not evidence.rendered(name):
            with replacing(out) as temporary:
                rows, wrong = samples_only(source, temporary)
            return Rebuilt(name, tables=1, samples=rows, problems=wrong)
        return _rendered(evidence, source, out)
    except RidgeFillError as error:
        return Rebuilt(name, problems=(f"{name}: {error}",))


def _rendered(evidence: Evidence, source: Path, out: Path) -> Rebuilt:
    problems: list[str] = []
    decided = evidence.decided.get(source.name)
    if decided is None:
        problems.append(f"{source.name}: the ledger decided none of its predictions")
    with replacing(out) as temporary:
        for relative in (*files_of(source), *COPIED):
            (temporary / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / relative, temporary / relative)
        write_json(temporary / "verdicts.json", verdict_rows(decided) if decided else [])
        notes = evidence.root / NOTES
        done = render(temporary, notes if notes.is_file() else None, ledger_home(evidence.root))
        again = recompute(temporary)
        write_report(temporary, again)
    problems += [f"{source.name}, rebuilt: {mismatch}" for mismatch in again.mismatches]
    first = recompute(source)
    problems += [f"{source.name}, published: {mismatch}" for mismatch in first.mismatches]
    cells = compare_cells(documents.read_document(source), documents.read_document(out))
    problems += [f"{source.name}: {each}" for each in cells.different]
    redrawn = _redrawn(source / "figures", out / "figures")
    return Rebuilt(
        source.name, done.tables, done.figures, redrawn, cells, (first.cells, again.cells), problems=tuple(problems)
    )


def verdict_rows(decided: Decided) -> list[dict[str, Any]]:
    """The verdicts as the report step writes them, so that the rebuilt report rests on what was decided here."""
    return [verdict_row(one, decided.says[one.id], decided.rules[one.id]) for one in decided.verdicts]


def _redrawn(published: Path, rebuilt: Path) -> tuple[str, ...]:
    pictures = sorted(path for path in rebuilt.iterdir() if path.suffix in FIGURES) if rebuilt.is_dir() else []
    return tuple(
        path.name
        for path in pictures
        if not (published / path.name).is_file() or (published / path.name).read_bytes() != path.read_bytes()
    )


def published_names(evidence: Evidence) -> tuple[str, ...]:
    """Experiments that have published results, in the order of registration; folders that none names come last.

    Raises ResultsError when there is none.
    """
    home = evidence.root / PUBLISHED
    folders = sorted(path.name for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    experiments = [str((entry.body or {})["experiment"]) for entry in evidence.registrations if entry.body is not None]
    known = [name for name in dict.fromkeys(experiments) if name in folders or name in evidence.recorded]
    names = (*known, *(name for name in folders if name not in known))
    if not names:
        raise ResultsError(f"{home} has no published results; run from the root of a complete checkout")
    return names
