"""Commands that read: verify, verdicts, log, show, completion."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import Any


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the parsers."""
    command = commands.add_parser("verify", parents=[shared], help="check everything, offline")
    _trust_options(command)
    command.add_argument(
        "--since", type=int, metavar="SIZE", help="go on from this checkpoint, reading only what is new"
    )
    command.set_defaults(run=_verify)

    command = commands.add_parser("verdicts", parents=[shared], help="decide every prediction again, and say from what")
    _trust_options(command)
    command.set_defaults(run=_verdicts)

    command = commands.add_parser("log", parents=[shared], help="list the entries")
    command.add_argument("--branch", default="all", help="one branch (default: all)")
    command.add_argument("--json", action="store_true", help="print the entries as JSON")
    command.set_defaults(run=_log)

    command = commands.add_parser("show", parents=[shared], help="show one entry in full")
    command.add_argument("seq", type=int, metavar="SEQ", help="its number, as `ledger log` prints it")
    command.add_argument("--branch", help="its branch (default: local when there is one, else main)")
    command.add_argument("--json", action="store_true", help="print the entry as JSON")
    command.set_defaults(run=_show)

    command = commands.add_parser("completion", help="print completions for a shell, to source from its start file")
    command.add_argument("shell", choices=("bash", "zsh", "tcsh"), help="which shell")
    command.set_defaults(run=_completion)


def _trust_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("--branch", default="all", help="one branch (default: all)")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    command.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="PUBLIC",
        help="a public key you trust, NAME+ID+BASE64 (repeatable)",
    )
    command.add_argument(
        "--tsa-root", type=Path, action="append", default=[], metavar="FILE",
        help="root certificates (PEM) of a time-stamping authority you trust (repeatable)",
    )  # fmt: skip


def _trust(arguments: argparse.Namespace) -> Any:
    from ledger.custody import Trust
    from ledger.errors import FormatError, UsageError
    from ledger.signing.notes import parse_verifier_key

    try:
        for text in arguments.key:
            parse_verifier_key(text)
    except FormatError as failure:
        raise UsageError(str(failure)) from None
    return Trust(tuple(arguments.key), tuple(path.read_bytes() for path in arguments.tsa_root))


def _report(arguments: argparse.Namespace) -> Any:
    from ledger.verify import verify

    return verify(arguments.root, None if arguments.branch == "all" else [arguments.branch], _trust(arguments))


def _verify(arguments: argparse.Namespace) -> int:
    if arguments.since is not None:
        from ledger.since import verify_since

        fresh = verify_since(arguments.root, arguments.branch, arguments.since, _trust(arguments))
        print(json.dumps(fresh.to_json(), indent=2) if arguments.json else fresh.text())
        return fresh.exit_code
    report = _report(arguments)
    print(json.dumps(report.to_json(), indent=2) if arguments.json else report.text())
    code: int = report.exit_code
    return code


def _verdicts(arguments: argparse.Namespace) -> int:
    from ledger.branches import branch_path
    from ledger.chain import read_chain
    from ledger.reports import decided_page, unrun_lines

    report = _report(arguments)
    if arguments.json:
        print(json.dumps(report.to_json(), indent=2))
        return int(report.exit_code)
    for branch in report.branches:
        entries = read_chain(branch_path(arguments.root, branch.name)).entries
        times = {entry.seq: entry.time for entry in entries}
        print(f"{branch.name}: {branch.size} entries, {branch.state}")
        for item in branch.decided:
            print("\n" + decided_page(item, times))
        print("\n".join(["", *unrun_lines(branch)]))
    for finding in report.errors:
        print(finding.line())
    print("ledger verified" if report.ok else "VERIFICATION FAILED: type `ledger verify`")
    return int(report.exit_code)


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


def _completion(arguments: argparse.Namespace) -> int:
    import shtab

    from ledger.cli import make_parser

    print(shtab.complete(make_parser(), shell=arguments.shell))
    return 0
