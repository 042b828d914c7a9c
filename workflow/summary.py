"""``python -m workflow.summary results/NAME``: what a finished experiment found, and what was checked."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ledger.errors import LedgerError
from ledger.verify import verify
from ridgefill.errors import ResultsError, RidgeFillError
from ridgefill.results import read_json

SERVED = ("served", "mixed", "unfilled")
USAGE = "usage: python -m workflow.summary results/NAME"


def summary(results: Path, root: Path) -> tuple[str, int]:
    """The closing words of a run and the exit code of ``ledger verify``. Raises the errors of what it reads."""
    table = results / "tables/main.md"
    if not table.is_file():
        raise ResultsError(f"{table} is missing; run `snakemake --cores all {results}` first")
    verification = read_json(results / "verification.json")
    checked = verify(root)
    lines = [
        "",
        table.read_text("utf-8").strip(),
        "",
        *_served(results),
        *_verdicts(read_json(results / "verdicts.json")),
        "",
        f"report         {results / 'report.html'}",
        f"numbers        {_counts(verification)}",
        f"ledger verify  {_first_line(checked.text())}",
    ]
    return "\n".join(lines), checked.exit_code


def _served(results: Path) -> list[str]:
    """What was measured on a server, where one was."""
    tables = [path for name in SERVED if (path := results / "tables" / f"{name}.md").is_file()]
    return [line for path in tables for line in (path.read_text("utf-8").strip(), "")]


def _verdicts(verdicts: list[dict[str, Any]]) -> list[str]:
    return [f"{verdict['verdict']:<10} {verdict['id']}: {verdict['says']}" for verdict in verdicts]


def _counts(verification: dict[str, Any]) -> str:
    wrong = len(verification["mismatches"])
    return f"{verification['numbers']} recomputed by another code path, {wrong} mismatches"


def _first_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def main() -> int:
    """Entry point."""
    if len(sys.argv) != 2:
        sys.stderr.write(USAGE + "\n")
        return 2
    try:
        said, code = summary(Path(sys.argv[1]), Path.cwd())
    except (RidgeFillError, LedgerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(said + "\n")
    return code


if __name__ == "__main__":
    raise SystemExit(main())
