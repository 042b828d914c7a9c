"""``ridgefill paper``: the paper's published tables, and ours beside them in the same layout."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ridgefill.paper.data import Paper


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "print a published table of the paper, and our numbers in the same layout; without --table, list them"
    parser = commands.add_parser("paper", help=about, description=about)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--table", metavar="REF", help="a table or section: 17, A.1, 'sec 6.4'")
    what.add_argument("--check", action="store_true", help="recompute every published number that follows from others")
    parser.add_argument("--model", help="keep one model of the paper, or one of ours")
    parser.add_argument(
        "--results",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="a results folder, or a folder of them, beside the published ones; may be repeated",
    )
    parser.add_argument("--paper-only", action="store_true", help="leave our numbers out")
    parser.add_argument("--root", type=Path, help="folder that holds data/paper (default: here)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--csv", action="store_true", help="print one line per cell (with --table)")
    parser.set_defaults(run=_paper)


def _paper(arguments: argparse.Namespace) -> int:
    from ridgefill.errors import ConfigError
    from ridgefill.paper.files import find_root, load_paper

    paper = load_paper(find_root(arguments.root))
    if arguments.check:
        return _check(arguments, paper)
    if arguments.table is None:
        unused = [f"--{name}" for name in ("model", "results", "csv") if getattr(arguments, name)]
        if unused:
            raise ConfigError(f"{unused[0]} goes with a table; add --table REF")
        from ridgefill.paper.report import listing, listing_text

        print(json.dumps({"tables": listing(paper)}) if arguments.json else listing_text(paper))
        return 0
    from ridgefill.paper.ours import PUBLISHED, open_results
    from ridgefill.paper.report import as_csv, as_json, as_text, side_by_side

    paper.table(arguments.table)
    published = [paper.root / PUBLISHED] if (paper.root / PUBLISHED).is_dir() else []
    experiments = [] if arguments.paper_only else open_results([*published, *arguments.results])
    table = side_by_side(paper, arguments.table, experiments, arguments.model)
    print(as_json(table) if arguments.json else as_csv(table) if arguments.csv else as_text(table))
    return 0


def _check(arguments: argparse.Namespace, paper: Paper) -> int:
    """Exit code 0: what does not follow is a finding about the paper, not an error of this command."""
    from ridgefill.errors import ConfigError
    from ridgefill.paper.derive import check_all
    from ridgefill.paper.report import outcome_text

    if arguments.model or arguments.results or arguments.csv:
        raise ConfigError("--check looks at all tables of the paper and nothing else; leave the other options out")
    outcomes = list(check_all(paper))
    if not arguments.json:
        print(outcome_text(outcomes))
        return 0
    found = [
        {
            "target": one.derivation.target,
            "formula": one.derivation.formula,
            "holds": one.holds,
            "published": [float(one.published.low), float(one.published.high)],
            "derived": [float(one.derived.low), float(one.derived.high)],
            "note": one.derivation.note,
        }
        for one in outcomes
    ]
    print(json.dumps({"derivations": found}))
    return 0
