"""What leaves a ledger, and the checks of those who get it: prove, publish, export, import-check."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from ledger.errors import UsageError


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the four commands."""
    _add_prove(commands, shared)
    _add_publish(commands, shared)
    _add_export(commands, shared)
    _add_import_check(commands, shared)


def _add_prove(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("prove", parents=[shared], help="write a proof that an entry is in the ledger")
    command.add_argument("seq", type=int, nargs="?", metavar="SEQ", help="its number, as `ledger log` prints it")
    command.add_argument(
        "--since", type=int, metavar="SIZE", help="prove instead that the first SIZE entries still stand"
    )
    command.add_argument("--branch", help="its branch (default: local when there is one, else main)")
    command.add_argument("--out", type=Path, metavar="FILE", help="file to write (default: print the proof)")
    command.set_defaults(run=_prove)


def _add_publish(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("publish", parents=[shared], help="copy a branch, without some bodies, to a folder")
    command.add_argument("folder", type=Path, metavar="FOLDER", help="a new folder, or one published before")
    command.add_argument("--branch", default="main", help="branch to publish (default: main)")
    command.add_argument(
        "--withhold", action="append", default=[], metavar="SEQ,A-B", help="numbers of entries whose bodies stay out"
    )
    command.add_argument(
        "--withhold-kind", action="append", default=[], metavar="KIND", help="a kind of entry whose bodies stay out"
    )
    command.add_argument("--results", action="store_true", help="with the published result files")
    command.set_defaults(run=_publish)


def _add_export(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("export", parents=[shared], help="sign one registration as an in-toto statement")
    command.add_argument("seq", type=int, metavar="SEQ", help="number of a registration or an amendment")
    command.add_argument("--branch", help="its branch (default: local when there is one, else main)")
    command.add_argument("--key", metavar="NAME", help="the key to sign with")
    command.add_argument("--out", type=Path, metavar="FILE", help="file to write (default: print the envelope)")
    command.set_defaults(run=_export)


def _add_import_check(commands: Any, shared: argparse.ArgumentParser) -> None:
    command = commands.add_parser("import-check", parents=[shared], help="check something received, offline")
    command.add_argument(
        "path", type=Path, metavar="PATH", help="a proof, export, checkpoint, body or published folder"
    )
    command.add_argument(
        "--key", action="append", default=[], metavar="VKEY", help="a verifier key that must have signed"
    )
    command.add_argument("--entry", type=Path, metavar="FILE", help="the header file it should be about")
    command.add_argument("--header", type=Path, metavar="FILE", help="for a revealed body: its header file")
    command.add_argument("--salt", type=Path, metavar="FILE", help="for a revealed body: its salt file")
    command.add_argument(
        "--checkpoint", type=Path, metavar="FILE", help="a checkpoint you hold that it should be about"
    )
    command.add_argument("--json", action="store_true", help="print the outcome as JSON")
    command.set_defaults(run=_import_check)


def _prove(arguments: argparse.Namespace) -> int:
    from ledger.publishing.standing import prove_consistency, prove_inclusion, sound_chain

    if (arguments.seq is None) == (arguments.since is None):
        raise UsageError("give either the number of an entry or --since SIZE; see `ledger log`")
    chain = sound_chain(arguments.root, _branch(arguments))
    if arguments.since is not None:
        grown, ground = prove_consistency(chain, arguments.since)
        _hand_out(
            arguments.out, grown.encode(), f"proof that {arguments.since} entries still stand in {ground.sentence()}"
        )
        return 0
    proof, ground = prove_inclusion(chain, arguments.seq)
    _hand_out(arguments.out, proof.encode(), f"proof that entry #{arguments.seq} is in {ground.sentence()}")
    return 0


def _publish(arguments: argparse.Namespace) -> int:
    from ledger.publishing.index import publish

    done = publish(
        arguments.root,
        arguments.folder,
        arguments.branch,
        arguments.withhold,
        arguments.withhold_kind,
        arguments.results,
    )
    print(f"published {arguments.branch} to {arguments.folder}: {done.size} entries, {done.shown} with their bodies")
    print(f"  files      {len(done.added)} added, {len(done.replaced)} replaced")
    if done.revealed:
        print(f"  revealed   {', '.join(f'#{seq}' for seq in done.revealed)}")
    for path in done.replaced:
        print(f"  replaced   {path}")
    for line in done.changed:
        print(f"  left out   {line}")
    print(f"next: ledger import-check {arguments.folder}")
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from ledger.publishing.exports import export_registration

    if not arguments.key:
        raise UsageError("an export is signed; make a key with `ledger key new NAME` and give it with --key NAME")
    envelope, key, ground = export_registration(arguments.root, _branch(arguments), arguments.seq, arguments.key)
    says = f"registration #{arguments.seq} in {ground.sentence()}, signed by {key.name}"
    _hand_out(arguments.out, envelope, says, f" --key {key.text()}")
    return 0


def _import_check(arguments: argparse.Namespace) -> int:
    from ledger.publishing.imports import Held, check_received

    held = Held(
        tuple(arguments.key),
        *(_read(path) for path in (arguments.entry, arguments.header, arguments.salt, arguments.checkpoint)),
    )
    checked = check_received(arguments.path, held)
    print(json.dumps(checked.to_json(), indent=2) if arguments.json else checked.text())
    return 0


def _read(path: Path | None) -> bytes | None:
    from ledger.files import read_plain

    try:
        return None if path is None else read_plain(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file {path}; give what you hold") from None


def _branch(arguments: argparse.Namespace) -> str:
    from ledger.branches import branch_names

    return str(arguments.branch or ("local" if "local" in branch_names(arguments.root) else "main"))


def _hand_out(out: Path | None, data: bytes, says: str, options: str = "") -> None:
    """Write ``data`` to a file, or print exactly its bytes with what it is on the other channel."""
    from ledger.publishing.writing import write_once

    if out is None:
        sys.stdout.write(data.decode("utf-8"))
        sys.stdout.flush()
        print(f"{chr(10) if sys.stdout.isatty() else ''}{says}", file=sys.stderr)
        return
    write_once(out, data)
    print(f"wrote {out}: {says}")
    print(f"its reader types: ledger import-check {out}{options}")
