"""``python -m ridgefill.tables RESULTS_DIR [--notes FILE] [--ledger DIR]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ridgefill.errors import ResultsError, RidgeFillError
from ridgefill.tables.render import render

DEFAULT_LEDGER = Path("data/ledger")
DEFAULT_NOTES = Path("workflow/report/notes.yaml")


def main(argv: Sequence[str] | None = None) -> int:
    """Render one results folder; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m ridgefill.tables", description="Write tables and report.")
    parser.add_argument("results", type=Path, help="a results folder, such as results/smollm2_split19")
    parser.add_argument("--notes", type=Path, help=f"methods and deviations (default: {DEFAULT_NOTES} if there)")
    parser.add_argument("--ledger", type=Path, help=f"the ledger's branches (default: {DEFAULT_LEDGER} if there)")
    arguments = parser.parse_args(argv)
    notes = arguments.notes or (DEFAULT_NOTES if DEFAULT_NOTES.is_file() else None)
    ledger = arguments.ledger or (DEFAULT_LEDGER if DEFAULT_LEDGER.is_dir() else None)
    try:
        if ledger is not None and not ledger.is_dir():
            raise ResultsError(
                f"there is no ledger folder {ledger}; name one like {DEFAULT_LEDGER}, or leave --ledger out"
            )
        done = render(arguments.results, notes, ledger)
    except RidgeFillError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{done.report}: {done.tables} tables, {done.figures} figures, {done.cells} numbers\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
