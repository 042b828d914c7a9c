"""Write a results folder's tables, figures, cells and report from its Parquet files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.results import files_of, read_json, views_text, write_bytes, write_json
from ridgefill.tables.cost import cost_table
from ridgefill.tables.fitting import fit_table, lam_table, setup_table
from ridgefill.tables.folder import Folder, arm_label, number_entry
from ridgefill.tables.grid import Cell, Column, Entry, Table, render_csv, render_markdown
from ridgefill.tables.history import load_history
from ridgefill.tables.longbench import v1_table, v2_table
from ridgefill.tables.losses import perplexity_table, tails_table
from ridgefill.tables.non_inferiority import non_inferiority_table
from ridgefill.tables.quality import contrasts_table, main_table, split_curve_table, tasks_table
from ridgefill.tables.served import mixed_table, served_table, unfilled_table
from ridgefill.tables.speed import serving_table, speed_table
from ridgefill.tables.spending import spending_table
from ridgefill.tables.splices import splices_table
from ridgefill.tables.suites import post_prompt_table, suites_table
from ridgefill.tables.verdicts import Outcome, load_outcomes, verdicts_table

# Of cells.json: from 2 on a report has the tables of COMPANIONS.
CELLS_VERSION = 2
COMPANIONS = (non_inferiority_table, perplexity_table, tails_table)
# Tables that a folder has when such arms or suites were run.
OPTIONAL = (
    splices_table, suites_table, post_prompt_table, v1_table, v2_table, spending_table, speed_table, serving_table,
    served_table, mixed_table, unfilled_table,
)  # fmt: skip
SIDECARS = ("experiment.json", "provenance.json", "claim.yaml", "verdicts.json", "overlap.json")


@dataclass(frozen=True)
class Rendered:
    """What :func:`render` wrote: the report's path, and how many tables, figures and numbers it has."""

    report: Path
    tables: int
    figures: int
    cells: int


def main_table_markdown(results_dir: Path | str) -> str:
    """The main table of a results folder as Markdown, from the Parquet files alone."""
    return render_markdown(main_table(Folder(Path(results_dir))))


SHORT = (
    "exact", "no_fill", "identity", "ridgefill", "pop_native", "ridgefill_rows", "random_rows_matched",
    "no_fill_longer_tail", "low_rank_rows",
)  # fmt: skip
"""Arms that a page shows which has no room for all of a study's."""


def short_table_markdown(results_dir: Path | str) -> str:
    """As ``main_table_markdown``, the rows of ``SHORT`` alone."""
    table, shown = main_table(Folder(Path(results_dir))), {arm_label(arm) for arm in SHORT}
    return render_markdown(replace(table, rows=tuple(row for row in table.rows if row[0].label in shown)))


def summary_table(folder: Folder, outcomes: Sequence[Outcome]) -> Table:
    """How many predictions were made and how they fell."""
    counted = Counter(outcome.verdict for outcome in outcomes)
    origin = folder.origin("measure", "ruler/samples.parquet")
    facts = {"predictions": len(outcomes), **{k: counted[k] for k in ("supported", "refuted", "undecided")}}
    rows = tuple(
        (Entry(label=words), number_entry(f"summary.{words}", count, "count", len(outcomes), origin))
        for words, count in facts.items()
    )
    columns = (Column("outcome", "Outcome", label=True), Column("count", "Predictions"))
    return Table("summary", "Verdicts counted", "", columns, rows)


def build_tables(folder: Folder, outcomes: Sequence[Outcome]) -> dict[str, Table]:
    """Every table by name: those of ``COMPANIONS``, ``OPTIONAL`` and of verdicts only where results have them."""
    tables = [
        main_table(folder),
        contrasts_table(folder),
        split_curve_table(folder),
        tasks_table(folder),
        lam_table(folder),
        fit_table(folder),
        cost_table(folder),
        setup_table(folder),
    ]
    tables += [table for make in (*COMPANIONS, *OPTIONAL) if (table := make(folder)) is not None]
    if outcomes:
        tables += [verdicts_table(folder, tuple(outcomes)), summary_table(folder, outcomes)]
    return {table.name: table for table in tables}


def render(results_dir: Path | str, notes: Path | None = None, ledger: Path | None = None) -> Rendered:
    """Write ``tables/``, ``figures/``, ``report.html``, ``views.sql`` and, last, ``cells.json``.

    Tables and figures of an earlier report that this one does not have are removed.

    Reads the Parquet files, ``experiment.json``, ``provenance.json`` and, when there, ``claim.yaml`` with
    ``verdicts.json``, and ``notes`` (YAML with ``methods`` and ``deviations``). ``ledger`` is the folder of the
    ledger's branches, from which the timeline is drawn; without it there is none. Raises ResultsError.
    """
    # Matplotlib and jinja2 cost a second that main_table_markdown need not pay.
    from ridgefill.tables.figures import pictures, timeline_pictures
    from ridgefill.tables.report import render_report

    root = Path(results_dir)
    folder = Folder(root)
    outcomes = load_outcomes(root)
    tables = build_tables(folder, outcomes)
    cells = _unique(tables)
    history = load_history(ledger, root / "provenance.json", folder.settings.experiment)
    drawn = [*pictures(tables.values()), *timeline_pictures(history)]
    outputs: dict[str, bytes] = {"views.sql": views_text(root).encode()}
    for table in tables.values():
        outputs[f"tables/{table.name}.md"] = render_markdown(table).encode()
        outputs[f"tables/{table.name}.csv"] = render_csv(table).encode()
    for picture in drawn:
        outputs[f"figures/{picture.name}.png"] = picture.png
        outputs[f"figures/{picture.name}.svg"] = picture.svg
    outputs["report.html"] = render_report(folder, tables, drawn, outcomes, notes, history).encode()
    for name in _written_before(root) - set(outputs):
        (root / name).unlink(missing_ok=True)
    for name, data in outputs.items():
        write_bytes(root / name, data)
    write_json(root / "cells.json", _cells_document(folder, tables, cells, outputs))
    return Rendered(root / "report.html", len(tables), len(drawn), len(cells))


def _written_before(root: Path) -> set[str]:
    """Tables and figures that an earlier report in this folder consists of, by its ``cells.json``."""
    if not (root / "cells.json").is_file():
        return set()
    outputs = read_json(root / "cells.json").get("outputs", {})
    return {name for name in outputs if Path(name).parent.as_posix() in ("tables", "figures")}


def _unique(tables: Mapping[str, Table]) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for table in tables.values():
        for cell in table.cells():
            if cell.id in cells:
                raise ResultsError(f"two numbers share the cell id {cell.id!r}; this is a mistake in the tables")
            cells[cell.id] = cell
    return cells


def _cells_document(
    folder: Folder, tables: Mapping[str, Table], cells: Mapping[str, Cell], outputs: Mapping[str, bytes]
) -> dict[str, Any]:
    """Everything printed, with where it came from and the hashes of what was read and written."""
    inputs = [*files_of(folder.root), *(name for name in SIDECARS if (folder.root / name).is_file())]
    return {
        "version": CELLS_VERSION,
        "experiment": folder.settings.experiment,
        "inputs": {name: hashlib.sha256((folder.root / name).read_bytes()).hexdigest() for name in inputs},
        "outputs": {name: hashlib.sha256(data).hexdigest() for name, data in outputs.items()},
        "tables": {name: [_layout(row) for row in table.rows] for name, table in tables.items()},
        "cells": {
            cell.id: {
                "value": cell.value, "text": cell.text, "kind": cell.kind, "n": cell.n, "status": cell.status,
                "query": cell.origin.query, "run": cell.origin.run, "ledger_entry": cell.origin.ledger_entry,
            }
            for cell in cells.values()
        },
    }  # fmt: skip


def _layout(row: Sequence[Entry]) -> list[Any]:
    """One row as labels and lists of cell ids, so that a reader can find each number in the tables."""
    return [[cell.id for cell in entry.cells] if entry.cells else entry.label for entry in row]
