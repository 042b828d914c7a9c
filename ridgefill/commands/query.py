"""``ridgefill query``: one SELECT over the results of all experiments."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

EXAMPLES = """\
examples:
  ridgefill query "select experiment, arm, count(*) as n from ruler_samples group by all order by all"
  ridgefill query --results smollm2_split19 "from fit_layers"
  ridgefill query --tables
"""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "ask all results one question in SQL: the views of every experiment side by side, read-only"
    parser = commands.add_parser(
        "query", help=about, description=about, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sql", nargs="?", metavar="SELECT", help="one SELECT of DuckDB's SQL")
    parser.add_argument(
        "--results", action="append", default=[], metavar="FOLDER|NAME",
        help="a results folder, or an experiment of results/ or data/results/; may be repeated (default: all of them)",
    )  # fmt: skip
    parser.add_argument("--root", type=Path, help="folder with results/ and data/results/ (default: here)")
    parser.add_argument("--tables", action="store_true", help="list the views and their columns")
    parser.add_argument("--all", action="store_true", help="print every row of the table, not the first few")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object, with every row")
    form.add_argument("--csv", action="store_true", help="print CSV, with every row")
    parser.set_defaults(run=_query)


def _query(arguments: argparse.Namespace) -> int:
    from ridgefill.commands.macs import config_root
    from ridgefill.errors import ConfigError
    from ridgefill.tracing.database import Database
    from ridgefill.tracing.folders import measured, named_results
    from ridgefill.tracing.listing import as_csv, as_json, as_table, tables_text

    if (arguments.sql is None) != arguments.tables:
        raise ConfigError("expected a SELECT, or --tables alone, which lists what can be selected from")
    if arguments.tables and arguments.csv:
        raise ConfigError("--csv goes with a SELECT; --tables prints text, or one object with --json")
    results = named_results(config_root(arguments.root), arguments.results, measured)
    database = Database(results)
    if arguments.tables:
        views = database.views()
        listed = [{"view": one.name, "columns": dict(one.columns), "experiments": one.experiments} for one in views]
        print(json.dumps({"views": listed}) if arguments.json else tables_text(views, len(results)))
        return 0
    answer = database.ask(arguments.sql)
    print(as_json(answer) if arguments.json else as_csv(answer) if arguments.csv else as_table(answer, arguments.all))
    return 0
