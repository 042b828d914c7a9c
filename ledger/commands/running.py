"""Commands that record runs and say where they stand: run, start, result, status."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ledger.errors import UsageError

_RUN = """\
Executes CMD (no shell) in the project's folder as an attempt of a registered run: start is on the disk before,
result after, also when the command fails, is killed, or is stopped through this program.

The command reads private copies of the claim and configs, with the registered bytes: each word that names a
pinned file, also behind = as in --config=FILE, names its copy instead. In its environment:
  LEDGER_CONFIGS                                folder of the copies, at their paths in the project
  LEDGER_OUTPUTS                                results folder: data/results/EXPERIMENT on main, else results/EXPERIMENT
  LEDGER_SEED                                   seed of this attempt, from its registration and label
  LEDGER_EXPERIMENT, _RUN, _LABEL, _START       which attempt this is
  LEDGER_SET_KEY                                each setting given by --set KEY=VALUE
"""
_RUN_END = """\
exit code: the command's own, or 128 + n when signal n stopped it; 1 when it ended well and its outputs could not be
recorded; before it was started, that of the refusal (see `ledger --help`)
"""


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the parsers."""
    raw = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(
        "run",
        parents=[shared],
        help="run a command on the record",
        description=_RUN,
        epilog=_RUN_END,
        formatter_class=raw,
    )
    _add_order(command)
    _add_outputs(command, "default: every file there that is new or changed")
    command.add_argument("words", nargs=argparse.PARSER, metavar="-- CMD", help="the command and its arguments")
    command.set_defaults(run=_run)

    command = commands.add_parser("start", parents=[shared], help="record the start of a run made elsewhere")
    _add_order(command)
    command.add_argument("--json", action="store_true", help="print the start as JSON")
    command.set_defaults(run=_start)

    command = commands.add_parser("result", parents=[shared], help="close a start that has no result")
    command.add_argument("seq", type=int, metavar="SEQ", help="number of the start")
    command.add_argument("--branch", default="local", help="its branch (default: local)")
    how = command.add_mutually_exclusive_group(required=True)
    how.add_argument("--ok", action="store_true", help="the run ended well")
    how.add_argument("--failed", metavar="REASON", help="it did not, and why; it stays in the ledger")
    _add_outputs(command, "default: no outputs")
    command.set_defaults(run=_result)

    command = commands.add_parser("status", parents=[shared], help="what stands, runs, and was never run")
    command.add_argument("--branch", default="all", help="one branch (default: all)")
    command.add_argument("--json", action="store_true", help="print the status as JSON")
    command.set_defaults(run=_status)


def _add_order(command: argparse.ArgumentParser) -> None:
    command.add_argument("name", metavar="RUN", help="EXPERIMENT/RUN, or RUN where only one registered claim has it")
    command.add_argument("--branch", default="local", help="branch to write to (default: local)")
    command.add_argument("--label", default="", help="tells attempts of the run apart, like 'split 19'")
    command.add_argument("--claim", type=Path, metavar="FILE", help="the claim, where several have the run")
    command.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a setting that the claim allows"
    )
    command.add_argument("--input", action="append", default=[], metavar="PATH", help="a file whose hash to record")


def _add_outputs(command: argparse.ArgumentParser, otherwise: str) -> None:
    text = f"files below the results folder, like 'fit/*.parquet' or '**/*.csv' ({otherwise})"
    command.add_argument("--output", action="append", default=[], metavar="PATTERN", help=text)


def _run(arguments: argparse.Namespace) -> int:
    from ledger.hints import branch_option
    from ledger.running import run_command

    words = arguments.words[1:] if arguments.words[0] == "--" else arguments.words
    order = _order(arguments)
    _report_orphans(order.root, order.branch)

    def started(start: Any) -> None:
        _say(f"{_about(order)}: start #{start.seq} of branch {order.branch}")

    outcome = run_command(order, words, arguments.output, started)
    body, option = outcome.result.body or {}, branch_option(order.branch)
    count = len(body["outputs"])
    unchanged = f" ({outcome.unchanged} of them as before the run)" if outcome.unchanged else ""
    failed = f" ({body['message']})" if body["message"] else ""
    _say(f"result #{outcome.result.seq}: {body['status']}{failed}, {count} output{'s'[: count != 1]}{unchanged}")
    _say(f"next: ledger {'verify' if body['status'] == 'ok' else f'show {outcome.result.seq}{option}'}")
    return outcome.exit_code


def _start(arguments: argparse.Namespace) -> int:
    from ledger.hints import branch_option
    from ledger.running import start_only

    order = _order(arguments)
    _report_orphans(order.root, order.branch)
    start = start_only(order)
    body, option = start.body or {}, branch_option(order.branch)
    if arguments.json:
        shown = {"branch": order.branch, "seq": start.seq, "leaf": start.leaf, "seed": body["seed"]}
        print(json.dumps({**shown, "experiment": body["experiment"], "run": body["run"], "label": body["label"]}))
        return 0
    print(f"{_about(order)}: start #{start.seq} of branch {order.branch}")
    print(f"  seed     {body['seed']}")
    print(f"  outputs  go to {order.folder}")
    print(f"next: ledger result {start.seq} --ok --output 'PATTERN'{option}")
    print(f'  or: ledger result {start.seq} --failed "why"{option}')
    return 0


def _result(arguments: argparse.Namespace) -> int:
    from ledger.running import close_start

    root = arguments.root.resolve()
    entry = close_start(root, arguments.branch, arguments.seq, arguments.failed, arguments.output)
    body = entry.body or {}
    count = len(body["outputs"])
    outputs = f"{count} output{'s'[: count != 1]}"
    print(f"result #{entry.seq} of branch {arguments.branch}: start #{arguments.seq} {body['status']}, {outputs}")
    print("next: ledger verify")
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from ledger.status import status

    report = status(arguments.root.resolve(), None if arguments.branch == "all" else arguments.branch)
    print(json.dumps(report.to_json(), indent=2) if arguments.json else report.text())
    return report.exit_code


def _order(arguments: argparse.Namespace) -> Any:
    """What the options ask for, with the registration that allows it."""
    from ledger.choice import choose_run
    from ledger.running import Order

    root = arguments.root.resolve()
    for text in (arguments.name, arguments.label, *arguments.set, *arguments.input):
        if text != text.encode("utf-8", "replace").decode("utf-8"):
            raise UsageError(f"found {text!r} on the command line, expected UTF-8 text")
    overrides: dict[str, str] = {}
    for item in arguments.set:
        key, sign, value = item.partition("=")
        if not key or not sign or key in overrides:
            raise UsageError(f"found --set {item}, expected KEY=VALUE, and every key once")
        overrides[key] = value
    claim = None if arguments.claim is None else _typed(root, arguments.claim)
    registration, run_id = choose_run(root, [arguments.branch, "main"], arguments.name, claim)
    inputs = [_typed(root, Path(path)) for path in arguments.input]
    return Order(root, arguments.branch, registration, run_id, arguments.label, overrides, inputs)


def _typed(root: Path, path: Path) -> Path:
    """A path as typed: seen from the working folder, or else from the project's."""
    here = Path.cwd() / path
    return here if here.exists() else root / path


def _about(order: Any) -> str:
    registration = order.registration
    name = f"{registration.claim.experiment}/{order.run_id} {order.label}".rstrip()
    return f"{name}, registered as #{registration.seq} of branch {registration.branch} ({registration.grade})"


def _report_orphans(root: Path, branch: str) -> None:
    from ledger.orphans import orphan_lines

    for line in orphan_lines(root, branch):
        print(line, file=sys.stderr)


def _say(line: str) -> None:
    """A line beside the output of the command, which keeps standard output to itself."""
    from ledger.views import printable

    print(f"ledger: {printable(line)}", file=sys.stderr, flush=True)
