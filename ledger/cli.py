"""The ``ledger`` command. Each command imports what it needs, so that ``--help`` answers at once."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ledger.errors import LedgerError

_DESCRIPTION = """\
A local, append-only, hash-chained ledger of preregistered runs.

  ledger register workflow/claims/x.yaml   say what will be run, and how it will be decided
  ledger verify                            check every entry and every file it names, offline
  ledger log                               what was registered, started and recorded
"""
_EPILOG = """\
exit codes:
  0 fine                        7 claim or pinned config changed after registration
  1 any other refusal           8 (kept: voided registration)
  2 wrong command line          9 (kept: overdue registration)
  3 not a valid claim          10 another attempt of the run is at work
  4 broken ledger              11 run or override not in the registered claim
  5 result or config differs   12 no ledger here
  6 unregistered claim         13 the system refused a write
"""
_GRADES = {
    "confirmatory": "predictions stand before any run of this experiment",
    "no_prediction": "nothing is predicted, so nothing can be confirmed",
    "follow_up": "a run of this experiment had started before",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; refusals are one sentence on stderr."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except LedgerError as refusal:
        print(f"error: {refusal}", file=sys.stderr)
        return refusal.exit_code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130
    except OSError as failure:
        print(f"error: {failure.filename or 'the system'}: {failure.strerror or failure}", file=sys.stderr)
        return LedgerError.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ledger",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--root", type=Path, default=Path(), help="the project's folder (default: here)")

    command = commands.add_parser("init", parents=[shared], help="open a new ledger branch")
    command.add_argument("--branch", default="local", help="branch to open (default: local; a fork of main)")
    command.add_argument("--origin", help="its name in the world (default: BRANCH/random)")
    command.add_argument("--title", default="", help="a line for the first entry")
    command.set_defaults(run=_init)

    command = commands.add_parser("register", parents=[shared], help="register a claim before its runs")
    command.add_argument("claim", type=Path, help="the claim file (YAML)")
    command.add_argument("--branch", default="local", help="branch to write to (default: local)")
    command.set_defaults(run=_register)

    command = commands.add_parser("verify", parents=[shared], help="check everything, offline")
    command.add_argument("--branch", default="all", help="one branch (default: all)")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    command.set_defaults(run=_verify)

    command = commands.add_parser("log", parents=[shared], help="list the entries")
    command.add_argument("--branch", default="all", help="one branch (default: all)")
    command.add_argument("--json", action="store_true", help="print the entries as JSON")
    command.set_defaults(run=_log)

    command = commands.add_parser("show", parents=[shared], help="show one entry in full")
    command.add_argument("seq", type=int, metavar="SEQ", help="its number, as `ledger log` prints it")
    command.add_argument("--branch", help="its branch (default: local when there is one, else main)")
    command.add_argument("--json", action="store_true", help="print the entry as JSON")
    command.set_defaults(run=_show)
    return parser


def _init(arguments: argparse.Namespace) -> int:
    from ledger.branches import create_branch

    ledger = create_branch(arguments.root, arguments.branch, arguments.origin, arguments.title)
    first = ledger.entries()[0]
    print(f"opened {ledger.path} as {ledger.origin} with a {first.kind} entry {first.leaf[:12]}")
    print("next: ledger register CLAIM.yaml" + _branch_option(arguments.branch))
    return 0


def _register(arguments: argparse.Namespace) -> int:
    from ledger.branches import open_for_writing
    from ledger.claims import load_claim
    from ledger.registration import pin, register

    root: Path = arguments.root
    claim_path = arguments.claim if arguments.claim.is_absolute() else Path.cwd() / arguments.claim
    if not claim_path.exists():
        claim_path = root / arguments.claim
    load_claim(claim_path, str(arguments.claim))
    pin(root.resolve(), claim_path)  # a claim that is refused must not open a branch
    ledger = open_for_writing(root, arguments.branch)
    entry, new = register(root.resolve(), ledger, claim_path)
    body = entry.body or {}
    print(f"{'registered' if new else 'already registered'} {body['experiment']}: {body['claim']['title']}")
    print(f"  entry      #{entry.seq} of branch {arguments.branch} ({ledger.path})")
    print(f"  leaf       {entry.leaf}")
    print(f"  grade      {entry.header['grade']} ({_GRADES[entry.header['grade']]})")
    print(f"  pins       {', '.join(i['path'] for i in (body['claim_file'], *body['configs']))}")
    print(f"  runs       {', '.join(run['id'] for run in body['claim']['runs'])}")
    print(f"  predicts   {', '.join(p['id'] for p in body['claim']['predictions']) or 'nothing'}")
    print(f"next: snakemake --cores all results/{body['experiment']}")
    print(f"then: ledger verify; to read the entry again: ledger show {entry.seq} --branch {arguments.branch}")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from ledger.verify import verify

    report = verify(arguments.root, None if arguments.branch == "all" else [arguments.branch])
    print(json.dumps(report.to_json(), indent=2) if arguments.json else report.text())
    return report.exit_code


def _log(arguments: argparse.Namespace) -> int:
    from ledger.branches import branch_names, open_branch
    from ledger.views import entry_json, log_table

    names = branch_names(arguments.root) if arguments.branch == "all" else (arguments.branch,)
    ledgers = [(name, open_branch(arguments.root, name)) for name in names or ("main",)]
    if arguments.json:
        found = {name: [entry_json(entry) for entry in ledger.entries()] for name, ledger in ledgers}
        print(json.dumps(found, indent=2))
        return 0
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for number, (name, ledger) in enumerate(ledgers):
        print(("\n" if number else "") + f"{name} ({ledger.origin})")
        print(log_table(ledger.entries(), width))
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from ledger.branches import branch_names, open_branch
    from ledger.errors import UsageError
    from ledger.views import entry_json, entry_page

    branch = arguments.branch or ("local" if "local" in branch_names(arguments.root) else "main")
    entries = open_branch(arguments.root, branch).entries()
    if not 0 <= arguments.seq < len(entries):
        raise UsageError(
            f"branch {branch} has no entry #{arguments.seq}, expected 0 to {len(entries) - 1}; "
            "type `ledger log` for the list"
        )
    entry = entries[arguments.seq]
    print(json.dumps(entry_json(entry), indent=2) if arguments.json else entry_page(entry))
    return 0


def _branch_option(branch: str) -> str:
    return "" if branch == "local" else f" --branch {branch}"


if __name__ == "__main__":
    sys.exit(main())
