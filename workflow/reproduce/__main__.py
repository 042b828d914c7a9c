"""``python -m workflow.reproduce``: every published number again; ``--full NAME``: one experiment from the model."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ledger.errors import LedgerError
from ridgefill.errors import RidgeFillError
from ridgefill.files import write_text
from workflow.reproduce.full import rerun
from workflow.reproduce.run import TARGET, reproduce
from workflow.reproduce.text import outcome_text

ABOUT = """\
Rebuilds every table and figure of every published experiment from data/results and data/ledger/main, without a model
and without a network, holds each number against the published one, recomputes it by a second code path, verifies the
ledger, and says claim by claim what was expected and what was found. Ends with 0 when all is as published, else 1."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m workflow.reproduce", description=ABOUT)
    parser.add_argument("--out", type=Path, default=TARGET, metavar="DIR", help=f"where to write (default: {TARGET})")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="rebuild this one (repeatable)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (default: all)")
    parser.add_argument("--full", metavar="NAME", help="run this experiment from the model instead, then compare")
    parser.add_argument("--cores", default="all", help="of the full run (default: all)")
    parser.add_argument("--log", type=Path, metavar="FILE", help="write there too what is printed last")
    arguments = parser.parse_args(argv)
    if arguments.jobs < 1:
        parser.error(f"found --jobs {arguments.jobs}, expected 1 or more")
    root = Path.cwd()
    try:
        if arguments.full is not None:
            return rerun(root, arguments.full, arguments.cores)
        found = reproduce(root, arguments.out, arguments.jobs, partial(print, flush=True), arguments.only)
        if arguments.log is not None:
            write_text(arguments.log, outcome_text(found))
    except (RidgeFillError, LedgerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(outcome_text(found))
    return found.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
