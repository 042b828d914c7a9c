"""The ``ridgefill`` command: ``macs`` counts multiply-accumulates, ``recompute`` checks a report."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ridgefill import __version__
from ridgefill.commands import bench, doctor, fit, generate, macs, maps, paper, query, suites, trace, tune
from ridgefill.errors import RidgeFillError


def _recompute_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "rebuild every table from the results and check every number of the report"
    commands.add_parser("recompute", help=about, add_help=False)


def _chain(root: Path, branch: str) -> Any:
    """A branch of the ledger of the project at ``root``; None where it is not."""
    from ledger.branches import branch_path
    from ledger.chain import read_chain
    from ledger.errors import LedgerError

    try:
        return read_chain(branch_path(root, branch))
    except LedgerError:
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ridgefill", description="Late-layer cache fill: costs and checks.")
    parser.add_argument("--version", action="version", version=f"ridgefill {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    macs.add(commands)
    bench.add(commands)
    doctor.add(commands)
    _recompute_parser(commands)
    fit.add(commands)
    generate.add(commands)
    maps.add(commands)
    paper.add(commands)
    query.add(commands)
    suites.add(commands)
    trace.add(commands, _chain)
    tune.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit code, 0 for success."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        if words[:1] == ["recompute"]:
            from ridgefill.recompute import main as recompute

            return int(recompute(words[1:]))
        arguments = _parser().parse_args(words)
        code = int(arguments.run(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read the output has seen enough, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except RidgeFillError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in {"", "ridgefill", "ledger"}:
            raise
        print(
            f"error: the Python package {package} is not installed, which `ridgefill {words[0]}` needs; in the "
            "checkout, type: pip install '.[pipeline]'",
            file=sys.stderr,
        )
        return RidgeFillError.exit_code


if __name__ == "__main__":
    sys.exit(main())
