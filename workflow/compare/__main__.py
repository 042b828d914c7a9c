"""``python -m workflow.compare A B``: are two runs of one experiment the same but for rounding?"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ridgefill.errors import RidgeFillError
from ridgefill.results import write_json
from workflow.compare import compare
from workflow.compare.text import comparison_json, comparison_text

ABOUT = """\
Compares two results folders of one experiment, sample by sample; the first is the reference. Prints which
differences are rounding and which are not, and ends with 0 when all are rounding, else 1. docs/reproduce.md says
how that is decided."""


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="python -m workflow.compare", description=ABOUT)
    parser.add_argument("first", type=Path, metavar="A", help="the reference, such as data/results/smollm2_split19")
    parser.add_argument("second", type=Path, metavar="B", help="the other run, such as results/smollm2_split19")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="differences to print of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all differences there too")
    arguments = parser.parse_args(argv)
    if arguments.show < 0:
        parser.error(f"found --show {arguments.show}, expected 0 or more")
    try:
        found = compare(arguments.first, arguments.second)
        if arguments.json is not None:
            write_json(arguments.json, comparison_json(found))
    except RidgeFillError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(comparison_text(found, arguments.show))
    return 1 if found.beyond else 0


if __name__ == "__main__":
    raise SystemExit(main())
