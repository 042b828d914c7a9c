"""``ridgefill trace``: from a printed number back to its rows, its run and its ledger entries."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

EXAMPLES = """\
examples:
  ridgefill trace main.ridgefill.ruler_filled --results smollm2_split19
  ridgefill trace main RidgeFill "RULER, filled region" --results data/results/smollm2_split19
  ridgefill trace setup samples --results smollm2_split19
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser], read_chain: Callable[[Path, str], Any]) -> None:
    """Register the parser. read_chain: (project, branch) -> that branch of its ledger, or None."""
    about = "show what a printed number rests on: query, rows, run, configuration, ledger entries, predictions"
    parser = commands.add_parser(
        "trace", help=about, description=about, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "cell", nargs="+", metavar="CELL",
        help="a number's id, as the report shows it; its place in cells.json, from 0; or TABLE ROW COLUMN",
    )  # fmt: skip
    parser.add_argument(
        "--results", metavar="FOLDER|NAME",
        help="a results folder, or an experiment of results/ or data/results/ (default: the only one with such a cell)",
    )  # fmt: skip
    parser.add_argument("--root", type=Path, help="folder with data/ledger and workflow/config (default: here)")
    parser.add_argument("--all", action="store_true", help="print every row behind the number, not the first few")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object, with every row")
    form.add_argument("--sql", action="store_true", help="print the number's query alone, for ridgefill query")
    parser.set_defaults(run=partial(_trace, read_chain))


def _trace(read_chain: Callable[[Path, str], Any], arguments: argparse.Namespace) -> int:
    """Exit code 0 when everything agrees, else 1."""
    from ridgefill.commands.macs import config_root
    from ridgefill.errors import ConfigError
    from ridgefill.tracing.page import page
    from ridgefill.tracing.trace import trace

    root = config_root(arguments.root)
    report, cell = _find(root, arguments.results, arguments.cell)
    found = trace(report, cell, root, read_chain)
    if arguments.sql:
        if not found["query"]["sql"]:
            raise ConfigError(f"no query gives {cell}, but the ledger's rules; leave --sql out to see what it rests on")
        print(found["query"]["sql"])
        return 0
    print(json.dumps(found, ensure_ascii=False) if arguments.json else page(found, arguments.all))
    return 0 if found["agrees"] else 1


def _find(root: Path, named: str | None, words: list[str]) -> tuple[Any, str]:
    """The report and the cell; without a name, those of the only experiment that has such a cell."""
    from ridgefill.errors import ConfigError
    from ridgefill.tracing.finding import find_cell, open_report
    from ridgefill.tracing.folders import named_results, reported

    folders = named_results(root, [] if named is None else [named], reported)
    reports = [open_report(one) for one in folders]
    found, refused = [], []
    for report in reports:
        try:
            found.append((report, find_cell(report, words)))
        except ConfigError as error:
            refused.append(error)
    if not found:
        raise refused[0] if len(reports) == 1 else ConfigError(f"none of {len(reports)} reports has it: {refused[0]}")
    if len(found) > 1:
        each = "; ".join(f"{report.results.name} has {report.cells[cell]['text']} there" for report, cell in found)
        raise ConfigError(textwrap.shorten(f"{len(found)} reports print such a number ({each}", 600) +
                          "); add --results NAME")  # fmt: skip
    return found[0]
