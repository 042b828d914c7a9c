"""One printed number with everything behind it, as JSON-ready values, and whether the rows still make it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgefill.measures import Measures, scores_samples
from ridgefill.recompute.companions import companion_cells
from ridgefill.recompute.data import Data
from ridgefill.recompute.expected import Cells, expected_cells
from ridgefill.recompute.rules import verdict_cells
from ridgefill.tracing.answers import with_answers, wrongly_scored
from ridgefill.tracing.basis import Basis, Context, basis_of, unknown
from ridgefill.tracing.finding import Report, place_of
from ridgefill.tracing.numbers import Made, has_own, make
from ridgefill.tracing.records import (
    CHANGED,
    ReadChain,
    configuration_of,
    environment_of,
    predictions_on,
    records_of,
)
from ridgefill.tracing.rows import Row, leaves_of, query_path, rows_of, runnable

_TOLERANCE = 1e-9
_SIDES = ("", ".low", ".high")


def trace(report: Report, cell: str, root: Path, read_chain: ReadChain) -> dict[str, Any]:
    """Everything behind ``cell``; ``agrees`` is false when something no longer is what is printed or recorded.

    root: the project that holds the ledger and the configuration. Raises ResultsError for results that are damaged.
    """
    folder = report.results.path
    measures = Measures(folder)
    stored = report.cells[cell]
    basis = basis_of(cell, Context(measures.settings.split, leaves_of(folder)))
    # A table that is not told apart here still has its query, its run and the second code path.
    basis = basis or unknown(cell, str(stored["query"]), measures.settings.split)
    rows = with_answers(measures, basis, rows_of(measures, basis))
    checks = _checks(report, cell, basis, rows, measures)
    records = records_of(root, folder, str(stored["ledger_entry"]), str(stored["run"]), read_chain)
    configuration = configuration_of(folder, basis.file)
    records["resolved"] = configuration
    agrees = all(check["agrees"] for check in checks) and not any(
        item["state"] == CHANGED for item in (*records["outputs"], *records["configs"])
    )
    if configuration["carried"] not in (None, configuration["sha256"]):
        agrees = False
    place = place_of(report, cell)
    return {
        "cell": cell,
        "experiment": report.results.name,
        "folder": str(folder),
        "place": place and {"table": place.table, "row": place.row, "column": place.column, "printed": place.printed},
        "printed": stored["text"],
        "value": stored["value"],
        "interval": _interval(report, cell),
        "kind": stored["kind"],
        "n": stored["n"],
        "status": stored["status"],
        "measures": basis.words + (f", {basis.end} of the 95 % interval" if basis.end else ""),
        "arm": basis.arm or None,
        "baseline": basis.baseline or None,
        "split": basis.split,
        "query": {"name": basis.query, "path": _query_path(basis), "sql": runnable(measures, basis)},
        "rows": {"file": basis.file, "count": len(rows), "each": [_shown(row) for row in rows]},
        "checks": checks,
        **records,
        "predictions": predictions_on(folder, basis),
        "environment": environment_of(folder),
        "agrees": agrees,
    }


def recomputed(folder: Path) -> Cells:
    """Every number of a results folder by the code of ``ridgefill recompute``."""
    data = Data(folder)
    return {**expected_cells(data), **verdict_cells(folder, data), **companion_cells(data)}


def _interval(report: Report, cell: str) -> dict[str, Any] | None:
    base = cell.removesuffix(".low").removesuffix(".high")
    ends = [report.cells.get(base + end) for end in _SIDES[1:]]
    if ends[0] is None or ends[1] is None:
        return None
    return {
        "low": ends[0]["value"], "high": ends[1]["value"], "printed_low": ends[0]["text"],
        "printed_high": ends[1]["text"],
    }  # fmt: skip


def _checks(report: Report, cell: str, basis: Basis, rows: Sequence[Row], measures: Measures) -> list[dict[str, Any]]:
    """What was found again, in words, each with whether it is what the report holds."""
    base = cell.removesuffix(".low").removesuffix(".high")
    checks = []
    if has_own(basis.makes):
        words, value = make(basis.makes, rows, basis.parameters)
        words = words.replace("values", "scores") if scores_samples(basis.metric) else words
        checks.append(_check(words, value, report.cells[base]))
    again = recomputed(report.results.path)
    for identity in (base + end for end in _SIDES):
        if identity in report.cells:
            side = {"": "it", ".low": "the lower end", ".high": "the upper end"}[identity.removeprefix(base)]
            words = f"{side}, by the second code path,"
            found = again.get(identity)
            if found is None:
                checks.append(
                    {"words": words, "value": None, "agrees": False, "says": f"{words} is NOT a known number"}
                )
            else:
                checks.append(_check(words, found.raw, report.cells[identity]))
    wrong = wrongly_scored(basis, rows)
    if wrong is not None:
        says = "each of these answers, scored again, earns its score"
        if wrong:
            says = f"{len(wrong)} of these answers do NOT earn their score: {', '.join(wrong[:5])}"
        checks.append({"words": "answers scored again", "value": len(wrong), "agrees": not wrong, "says": says})
    return checks


def _check(words: str, value: Made, stored: Mapping[str, Any]) -> dict[str, Any]:
    same = _same(value, stored["value"])
    number = f"{value:.10g}" if isinstance(value, float) else str("without value" if value is None else value)
    says = f"{words} is {number}: "
    says += f"what is printed ({stored['text']})" if same else f"NOT what is printed ({stored['text']})"
    return {"words": words, "value": value, "agrees": same, "says": says}


def _same(value: Made, stored: Any) -> bool:
    if isinstance(value, int | float) and isinstance(stored, int | float):
        return abs(value - stored) <= _TOLERANCE * max(1.0, abs(stored))
    return bool(value == stored)


def _query_path(basis: Basis) -> str:
    path = query_path(basis.query)
    package = Path(__file__).parents[2]
    return str(path.relative_to(package)) if path.is_relative_to(package) else str(path)


def _shown(row: Row) -> dict[str, Any]:
    """A row as JSON: what the parts make instead of the parts, and the answer."""
    hidden = {"parts", "parts_1", "parts_2", "part", "document", "top1", "kl", "latencies", "latencies_1"}
    kept = {key: value for key, value in row.items() if key not in hidden}
    if "kl" in row and "top1" in row:
        known = [value for value in row["kl"] if value is not None]
        kept |= {
            "top1_mean": sum(row["top1"]) / len(row["top1"]),
            "kl_mean": sum(known) / len(known) if known else None,
        }
    return kept
