"""What ``cells.json`` says of a number beside its value: how many items, which query, run and ledger entry.

The report holds the same facts, the Parquet files of a run their ledger entry, and every number has a place in a table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.recompute.expected import Cells
from ridgefill.results import files_of, metadata_of, read_folder

FACTS = ("query", "run", "ledger_entry", "n")
WRITTEN = ("views.sql", "report.html")
_SCRIPT = re.compile(r'<script type="application/json" id="(origins|facts)">(.*?)</script>', re.DOTALL)


def wrong_facts(root: Path, document: Mapping[str, Any], cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Facts of ``cells.json`` that the report or the measured files contradict, as (where, stored, expected)."""
    entries = _entries(root)
    reported = facts_in(root / "report.html")
    for identity, cell in document["cells"].items():
        known = entries.get(str(cell.get("run")))
        if known is None or cell.get("ledger_entry") not in known:
            files = f"the files of the run {cell.get('run')!r}"
            yield f"{identity} ledger_entry", str(cell.get("ledger_entry")), f"{sorted(known or ())}, as in {files}"
        for name, fact in reported.get(identity, {}).items():
            if cell.get(name) != fact:
                yield f"{identity} {name}", str(cell.get(name)), f"{fact}, as in report.html"
    listed = {
        one for rows in document["tables"].values() for row in rows for entry in row if isinstance(entry, list)
        for one in entry
    }  # fmt: skip
    for identity in cells:
        if identity in document["cells"] and identity not in listed:
            yield f"{identity} table", "none", "a place in a table"


def unpinned(root: Path, document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Files of the folder whose bytes ``cells.json`` does not pin, so that a change would go unseen."""
    tables = [f"tables/{name}{end}" for name in document["tables"] for end in (".md", ".csv")]
    for role, names in (("inputs", [*files_of(root), "experiment.json"]), ("outputs", [*WRITTEN, *tables])):
        for name in names:
            if name not in document[role]:
                yield name, "no hash", f"its SHA-256 among the {role} of cells.json"


def facts_in(report: Path) -> dict[str, dict[str, Any]]:
    """The facts of every number that a report's page shows when it is tapped; empty for a page without them.

    Raises ResultsError when they are not readable. Pages hold them as ``origins``, later ones as ``facts``.
    """
    found = _SCRIPT.search(report.read_text(encoding="utf-8"))
    if found is None:
        return {}
    try:
        held = json.loads(found[2])
        if found[1] == "origins":
            return {
                cell: {"query": query, "run": run, "ledger_entry": entry, "n": n}
                for cell, (query, run, entry, n, _) in held.items()
            }
        places = [dict(zip(FACTS, origin, strict=False)) for origin in held["origins"]]
        return {cell: {**places[origin], "n": n} for cell, (_, n, origin, *_) in held["cells"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise ResultsError(f"{report}: what it knows of its numbers is not readable ({error!r})") from error


def _entries(root: Path) -> dict[str, set[str]]:
    """Ledger entries that the files of each run carry."""
    found: dict[str, set[str]] = {}
    for name, table in read_folder(root).items():
        found.setdefault(name.split("/", maxsplit=1)[0], set()).add(metadata_of(table)["ledger_entry"])
    return found
