"""Commands that say what will be done: init, register, amend, void."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

_GRADES = {
    "confirmatory": "predictions stand before any run of this experiment",
    "no_prediction": "nothing is predicted, so nothing can be confirmed",
    "follow_up": "a run of this experiment had started before",
}


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the parsers."""
    command = commands.add_parser("init", parents=[shared], help="open a new ledger branch")
    command.add_argument("--branch", default="local", help="branch to open (default: local; a fork of main)")
    command.add_argument("--origin", help="its name in the world (default: BRANCH/random)")
    command.add_argument("--title", default="", help="a line for the first entry")
    command.set_defaults(run=_init)

    command = commands.add_parser("register", parents=[shared], help="register a claim before its runs")
    command.add_argument("claim", type=Path, help="the claim file (YAML)")
    command.add_argument("--branch", default="local", help="branch to write to (default: local)")
    command.set_defaults(run=_register)

    command = commands.add_parser("amend", parents=[shared], help="change a registration, on the record")
    command.add_argument("seq", type=int, metavar="SEQ", help="number of the registration")
    command.add_argument("claim", type=Path, help="the claim file as it is now")
    command.add_argument("--reason", required=True, help="why; it stays in the ledger")
    command.add_argument("--branch", default="local", help="its branch (default: local)")
    command.set_defaults(run=_amend)

    command = commands.add_parser("void", parents=[shared], help="withdraw a registration: it launches nothing")
    command.add_argument("seq", type=int, metavar="SEQ", help="number of the registration")
    command.add_argument("--reason", required=True, help="why; it stays in the ledger")
    command.add_argument("--branch", default="local", help="its branch (default: local)")
    command.set_defaults(run=_void)


def _init(arguments: argparse.Namespace) -> int:
    from ledger.branches import create_branch
    from ledger.hints import branch_option

    ledger = create_branch(arguments.root, arguments.branch, arguments.origin, arguments.title)
    first = ledger.entries()[0]
    print(f"opened {ledger.path} as {ledger.origin} with a {first.kind} entry {first.leaf[:12]}")
    print("next: ledger register CLAIM.yaml" + branch_option(arguments.branch))
    return 0


def _register(arguments: argparse.Namespace) -> int:
    from ledger.branches import open_for_writing
    from ledger.claims import load_claim
    from ledger.hints import run_hint
    from ledger.pinning import pin
    from ledger.registration import register

    root: Path = arguments.root
    claim_path = _claim_path(arguments)
    load_claim(claim_path, str(arguments.claim))
    pin(root.resolve(), claim_path)  # a claim that is refused must not open a branch
    ledger = open_for_writing(root, arguments.branch)
    entry, new = register(root.resolve(), ledger, claim_path)
    print(f"{'registered' if new else 'already registered'} {_title(entry.body or {})}")
    _say(entry, arguments.branch, ledger.path)
    claim = (entry.body or {})["claim"]
    print(f"next: {run_hint(root, claim['experiment'], claim['runs'][0]['id'])}")
    print(f"then: ledger verify; to read the entry again: ledger show {entry.seq} --branch {arguments.branch}")
    _report_orphans(root, arguments.branch)
    return 0


def _amend(arguments: argparse.Namespace) -> int:
    from ledger.amending import amend
    from ledger.branches import open_branch

    ledger = open_branch(arguments.root, arguments.branch)
    entry = amend(arguments.root.resolve(), ledger, arguments.seq, _claim_path(arguments), arguments.reason)
    print(f"amended registration #{(entry.body or {})['registration']['seq']}: {_title(entry.body or {})}")
    _say(entry, arguments.branch, ledger.path)
    if entry.header["grade"] == "follow_up":
        print("note: a run of this experiment had started; if under this registration, its verdicts are now deviated")
    return 0


def _void(arguments: argparse.Namespace) -> int:
    from ledger.amending import void
    from ledger.branches import open_branch

    entry = void(open_branch(arguments.root, arguments.branch), arguments.seq, arguments.reason)
    print(f"voided registration #{arguments.seq} of branch {arguments.branch} by entry #{entry.seq}")
    print("it can launch nothing any more; what it said and what was run under it stays in the ledger")
    return 0


def _claim_path(arguments: argparse.Namespace) -> Path:
    given: Path = arguments.claim
    here = given if given.is_absolute() else Path.cwd() / given
    return here if here.exists() else arguments.root / given


def _title(body: dict[str, Any] | Any) -> str:
    return f"{body['experiment']}: {body['claim']['title']}"


def _say(entry: Any, branch: str, path: Path) -> None:
    body, grade = entry.body, entry.header["grade"]
    print(f"  entry      #{entry.seq} of branch {branch} ({path})")
    print(f"  leaf       {entry.leaf}")
    print(f"  grade      {grade} ({_GRADES[grade]})")
    print(f"  pins       {', '.join(i['path'] for i in (body['claim_file'], *body['configs']))}")
    print(f"  runs       {', '.join(run['id'] for run in body['claim']['runs'])}")
    print(f"  predicts   {', '.join(p['id'] for p in body['claim']['predictions']) or 'nothing'}")


def _report_orphans(root: Path, branch: str) -> None:
    from ledger.running import orphan_lines

    for line in orphan_lines(root, branch):
        print(line, file=sys.stderr)
