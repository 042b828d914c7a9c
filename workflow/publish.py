"""``python -m workflow.publish NAME``: copy a finished run into ``data/results`` and its tables into the README.

For maintainers, after a run with ``--config ledger_branch=main``: only a run whose result entries are on the
published branch can be published, and only when every number was recomputed.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from ledger.branches import open_branch
from ledger.errors import LedgerError
from ridgefill.errors import ResultsError, RidgeFillError
from ridgefill.files import replacing, write_text
from ridgefill.results import files_of, read_json
from ridgefill.tables import main_table_markdown, short_table_markdown
from ridgefill.tables.served import served_markdown

EXTRAS = (
    "experiment.json",
    "provenance.json",
    "claim.yaml",
    "verdicts.json",
    "overlap.json",
    "cells.json",
    "report.html",
    "verification.json",
    "views.sql",
)
USAGE = "usage: python -m workflow.publish NAME, such as smollm2_split19"


def publish(name: str, root: Path) -> Path:
    """Copy ``results/NAME`` to ``data/results/NAME`` as one unit and return the new folder. Raises ``ResultsError``."""
    source, target = root / "results" / name, root / "data/results" / name
    provenance = read_json(source / "provenance.json")
    if provenance["branch"] != "main":
        raise ResultsError(
            f"{source} was run on ledger branch {provenance['branch']}; run it with --config ledger_branch=main first"
        )
    if read_json(source / "verification.json")["mismatches"]:
        raise ResultsError(f"{source} has numbers that did not match when recomputed; see its verification.json")
    entries = open_branch(root, "main").entries()
    if provenance["registration"]["leaf"] not in {entry.leaf for entry in entries}:
        raise ResultsError(f"the registration of {source} is not on ledger branch main")
    if target.exists():
        shutil.rmtree(target)
    with replacing(target) as temporary:
        temporary.mkdir(parents=True)
        for relative in (*files_of(source), *EXTRAS):
            (temporary / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / relative, temporary / relative)
        for folder in ("tables", "figures"):
            shutil.copytree(source / folder, temporary / folder)
    return target


TABLES = {"main": main_table_markdown, "short": short_table_markdown, "served": served_markdown}
"""Tables of a result that the README may show, each made from the Parquet files alone."""


def marks(name: str, table: str = "main") -> tuple[str, str]:
    """What stands before and after a table of a result in the README, one of ``TABLES``."""
    return f"<!-- {table} table of {name}: begin -->", f"<!-- {table} table of {name}: end -->"


def readme_with_table(readme: str, name: str, table: str, kind: str = "main") -> str:
    """The README with the text between a table's marks replaced; unchanged where it has no such marks."""
    first, last = marks(name, kind)
    block = f"{first}\n{table.strip()}\n{last}"
    return re.sub(f"{re.escape(first)}.*{re.escape(last)}", lambda _: block, readme, count=1, flags=re.DOTALL)


def main() -> int:
    """Entry point."""
    if len(sys.argv) != 2:
        sys.stderr.write(USAGE + "\n")
        return 2
    root = Path.cwd()
    try:
        target = publish(sys.argv[1], root)
        readme = root / "README.md"
        text = readme.read_text("utf-8")
        for kind, make in TABLES.items():
            if marks(target.name, kind)[0] in text:
                text = readme_with_table(text, target.name, make(target), kind)
        write_text(readme, text)
    except (RidgeFillError, LedgerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    sys.stdout.write(f"published {target}; where README.md shows a table of it, that is new\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
