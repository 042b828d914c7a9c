"""``ridgefill suites``: every suite, what it needs, whether that is here, and which published numbers it is about."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path
from typing import Any

from ridgefill.commands.macs import config_root

WIDTH = 120


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Register the parser."""
    about = "list every suite, what it needs and whether that is on this machine"
    parser = commands.add_parser("suites", help=about, description=about)
    parser.add_argument("names", nargs="*", metavar="SUITE", help="keep these (default: all)")
    parser.add_argument("--experiment", metavar="NAME", help="look at the files that this experiment names")
    parser.add_argument("--texts", type=Path, metavar="DIR", help="unpacked text sources (default: the workflow's)")
    parser.add_argument("--models", type=Path, metavar="DIR", help="unpacked models (default: the workflow's)")
    parser.add_argument("--root", type=Path, help="folder that holds workflow/config (default: here)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=_suites)


def _suites(arguments: argparse.Namespace) -> int:
    """Exit code 0, also when something is missing: that is an answer."""
    from ridgefill.config import load_experiment
    from ridgefill.errors import ConfigError
    from ridgefill.suites.catalog import CATALOG
    from ridgefill.suites.presence import Machine

    known = [suite.name for suite in CATALOG]
    for name in arguments.names:
        if name not in known:
            raise ConfigError(f"no suite {name!r}; the known ones are {', '.join(known)}")
    root = config_root(arguments.root)
    experiment = load_experiment(arguments.experiment, root) if arguments.experiment else None
    folders = kept_folders(root)
    machine = Machine(root, arguments.texts or folders["texts"], arguments.models or folders["models"], experiment)
    wanted = [suite for suite in CATALOG if not arguments.names or suite.name in arguments.names]
    paper = _published(root)
    found = [_answer(suite, machine, paper) for suite in wanted]
    print(json.dumps({"suites": found}) if arguments.json else "\n\n".join(_shown(one) for one in found))
    return 0


def kept_folders(root: Path) -> dict[str, Path]:
    """Where the workflow keeps texts and models, as its configuration says."""
    import yaml

    path = root / "workflow/config/workflow.yaml"
    settings = yaml.safe_load(path.read_text("utf-8")) if path.is_file() else {}
    return {name: root / settings.get(name, name) for name in ("texts", "models")}


def _published(root: Path) -> dict[str, list[str]]:
    """The paper's metrics, each with the tables that print it; nothing where the published tables are not there."""
    from ridgefill.errors import ConfigError
    from ridgefill.paper.files import find_root, load_paper

    try:
        paper = load_paper(find_root(root))
    except ConfigError:
        return {}
    tables: dict[str, list[str]] = {}
    for cell in paper.cells:
        refs = tables.setdefault(cell.metric, [])
        if cell.ref not in refs:
            refs.append(cell.ref)
    return tables


def _answer(suite: Any, machine: Any, paper: dict[str, list[str]]) -> dict[str, Any]:
    """One suite as JSON."""
    from ridgefill.suites.presence import look

    asked = machine.experiment and getattr(machine.experiment.suites, suite.setting)
    tasks = set(suite.tasks) & set(machine.experiment.suites.ruler.tasks if machine.experiment else ())
    published = [_beside(metric, tables) for metric, tables in paper.items() if suite.answers(metric)]
    return {
        "suite": suite.name,
        "about": suite.about,
        "setting": f"suites.{suite.setting}",
        "tasks": list(suite.tasks),
        "in_experiment": None if machine.experiment is None else bool(tasks if suite.tasks else asked),
        "needs": [
            {"need": one.need, "what": one.what, "state": one.state, "get": one.get} for one in look(suite, machine)
        ],
        "published": published,
    }


def _beside(metric: str, tables: list[str]) -> dict[str, Any]:
    """A published metric and our measure beside it, null when there is none; tasks: which an experiment has to run."""
    from ridgefill.paper.correspond import match

    hit = match(metric)
    tasks = None if hit is None or hit.tasks is None else sorted(hit.tasks)
    return {"metric": metric, "tables": tables, "ours": hit and hit.metric, "tasks": tasks}


def _shown(one: dict[str, Any]) -> str:
    """One suite as text, one line a need."""
    asked = {None: "", True: ", in this experiment", False: ", not in this experiment"}[one["in_experiment"]]
    lines = [f"{one['suite']}  ({one['setting']}{asked})", f"  {one['about']}"]
    if one["tasks"]:
        lines.append(f"  tasks      {', '.join(one['tasks'])}")
    for need in one["needs"]:
        lines += _wrapped(f"{need['state']:<10}", f"{need['what']}{': ' + need['get'] if need['get'] else ''}")
    tables = [ref for hit in one["published"] for ref in hit["tables"] if ref.startswith("Table")]
    if tables:
        names = ", ".join(ref.removeprefix("Table ") for ref in dict.fromkeys(tables))
        metrics, beside = len(one["published"]), sum(hit["ours"] is not None for hit in one["published"])
        lines += _wrapped(
            "paper     ", f"tables {names}; a measure of ours stands beside {beside} of {metrics} metrics"
        )
    return "\n".join(lines)


def _wrapped(mark: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"  {mark} ", subsequent_indent=" " * 13, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
