"""The ``ledger`` command. Each command imports what it needs, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger.commands import reading, running, sharing, trusting, writing
from ledger.errors import LedgerError

_DESCRIPTION = """\
A local, append-only, hash-chained ledger of preregistered runs.

  ledger register workflow/claims/x.yaml   say what will be run, and how it will be decided
  ledger run x/fit -- python fit.py        run it, on the registered bytes, on the record
  ledger verify                            check every entry, file and verdict, offline
  ledger status                            what is open, what was never run, what to type next
"""
_EPILOG = """\
exit codes:
  0 fine                        7 claim or pinned config changed after registration
  1 any other refusal           8 registration voided
  2 wrong command line          9 registration overdue
  3 not a valid claim          10 another attempt of the run is at work
  4 broken ledger              11 run or override not in the registered claim
  5 result or config differs   12 no ledger here
  6 unregistered claim         13 the system refused a write
`ledger run` ends with the command's own exit code once the command was started.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; refusals are one sentence on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale without Unicode still shows every title
    arguments = make_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except LedgerError as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except UnicodeEncodeError as failure:
        print(
            f"error: this shell's locale allows file names in {failure.encoding} only, and a name here has other "
            "letters; type `export PYTHONUTF8=1` and repeat the command",
            file=sys.stderr,
        )
        return LedgerError.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as failure:
        print(f"error: {failure.filename or 'the system'}: {failure.strerror or failure}", file=sys.stderr)
        return LedgerError.exit_code


def make_parser() -> argparse.ArgumentParser:
    """The command line with all its commands."""
    parser = argparse.ArgumentParser(
        prog="ledger",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--root", type=Path, default=Path(), help="the project's folder (default: here)")
    for module in (writing, running, reading, trusting, sharing):
        module.add(commands, shared)
    return parser


if __name__ == "__main__":
    sys.exit(main())
