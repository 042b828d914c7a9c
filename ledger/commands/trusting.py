"""Commands that let others vouch for a ledger: key, checkpoint, cosign."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

_KEY = """\
Private keys lie outside the project, in $LEDGER_KEYS or ~/.config/ledger/keys. Publish the public key (one
line, `ledger key show NAME`) where readers know you: a key that only the ledger names proves nothing by itself.
"""


def add(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Register the parsers."""
    command = commands.add_parser(
        "key",
        parents=[shared],
        help="make a signing key, name it in the ledger, replace it",
        description=_KEY,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("action", choices=("new", "show", "add"), help="make one; print its public half; record it")
    command.add_argument("name", help="its name, or for `add` the public key of a co-author")
    command.add_argument("--branch", default="local", help="branch to record it in (default: local)")
    command.add_argument("--cosigner", action="store_true", help="it belongs to someone who cosigns checkpoints")
    command.add_argument("--replaces", metavar="ID", help="key id (8 hex digits) that it takes the place of")
    command.add_argument("--lost", action="store_true", help="the replaced key is lost and cannot sign its successor")
    command.add_argument("--reason", default="", help="why; it stays in the ledger")
    command.set_defaults(run=_key)

    command = commands.add_parser("checkpoint", parents=[shared], help="sign size and root of the ledger as it is")
    command.add_argument("--key", action="append", default=[], metavar="NAME", help="sign with this key (repeatable)")
    command.add_argument("--branch", default="local", help="branch (default: local)")
    command.add_argument("--timestamp-request", type=Path, metavar="FILE", help="write an RFC 3161 request for it")
    command.add_argument("--timestamp", type=Path, metavar="FILE", help="keep the authority's reply beside it")
    command.add_argument("--size", type=int, help="an earlier checkpoint to stamp (default: the ledger as it is)")
    command.set_defaults(run=_checkpoint)

    command = commands.add_parser("cosign", parents=[shared], help="add your signature to a checkpoint, after checks")
    command.add_argument("--key", required=True, metavar="NAME", help="sign with this key")
    command.add_argument("--size", type=int, help="which checkpoint (default: the newest)")
    command.add_argument("--branch", default="local", help="branch (default: local)")
    command.set_defaults(run=_cosign)


def _key(arguments: argparse.Namespace) -> int:
    from ledger.errors import FormatError, UsageError
    from ledger.signing.keys import create_key, keys_folder, load_key
    from ledger.signing.notes import COSIGNATURE, ED25519, parse_verifier_key

    root = arguments.root.resolve()
    algorithm = COSIGNATURE if arguments.cosigner else ED25519
    if arguments.action == "new":
        made = create_key(arguments.name, root)
        print(f"made {arguments.name} in {keys_folder()}; back it up, nobody can restore it")
        print(made.verifier(algorithm).text())
        print(f"next: ledger key add {arguments.name}{' --cosigner' if arguments.cosigner else ''}")
        return 0
    if arguments.action == "show":
        print(load_key(arguments.name, root).verifier(algorithm).text())
        return 0
    try:
        public = parse_verifier_key(arguments.name) if "+" in arguments.name else None
    except FormatError as failure:
        raise UsageError(str(failure)) from None
    key = public or load_key(arguments.name, root).verifier(algorithm)
    entry = _add_key(arguments, key)
    print(f"recorded {key.name}+{key.key_id.hex()} as #{entry.seq} of branch {arguments.branch}")
    if arguments.replaces and not arguments.lost:
        print("next: ledger checkpoint --key OLD --key NEW, so that the old key vouches for the new one")
    return 0


def _add_key(arguments: argparse.Namespace, key: Any) -> Any:
    from ledger.branches import open_branch
    from ledger.checkpoints import known_keys
    from ledger.errors import UsageError
    from ledger.signing.notes import COSIGNATURE

    ledger = open_branch(arguments.root, arguments.branch)
    known = {item.key_id.hex(): item for item in known_keys(ledger.entries())}
    if key.key_id.hex() in known:
        raise UsageError(f"the key {key.name}+{key.key_id.hex()} is recorded already; see `ledger log`")
    if arguments.replaces is not None and arguments.replaces not in known:
        raise UsageError(
            f"found no key {arguments.replaces!r} to replace, expected one of {', '.join(known) or 'none'}"
        )
    if arguments.lost and not arguments.replaces:
        raise UsageError("found --lost without --replaces; name the id of the lost key")
    body = {
        "public_key": key.text(),
        "role": "cosigner" if key.algorithm == COSIGNATURE else "signer",
        "replaces": arguments.replaces,
        "lost": arguments.lost,
        "reason": arguments.reason,
    }
    return ledger.append("key", body)


def _checkpoint(arguments: argparse.Namespace) -> int:
    from ledger.branches import open_branch
    from ledger.checkpoint import checkpoint_of
    from ledger.checkpoints import add_signatures, note_path, stored_sizes, write_range
    from ledger.errors import UsageError
    from ledger.signing.keys import load_key

    ledger = open_branch(arguments.root, arguments.branch)
    leaves = [entry.leaf for entry in ledger.entries()]
    size = len(leaves) if arguments.size is None else arguments.size
    if not 1 <= size <= len(leaves):
        raise UsageError(f"found the size {size}, branch {arguments.branch} has {len(leaves)} entries")
    point = checkpoint_of(ledger.origin, leaves[:size])
    keys = [load_key(name, arguments.root.resolve()) for name in arguments.key]
    if keys:
        add_signatures(ledger.path, point, [key.sign(point.text()) for key in keys])
        write_range(ledger.path, leaves[:size])
    if arguments.timestamp is not None and size not in stored_sizes(ledger.path):
        raise UsageError(
            f"found no signed checkpoint {size} for the time stamp to lie beside; pass --size of the one it is for, "
            "or --key NAME"
        )
    _timestamps(arguments, ledger.path, point)
    if size in stored_sizes(ledger.path):
        print(note_path(ledger.path, size).read_text(encoding="utf-8"), end="")
        return 0
    print(point.text())
    print("it is not signed, so it was not stored: pass --key NAME (`ledger key new NAME` makes one)")
    return 0


def _timestamps(arguments: argparse.Namespace, path: Path, point: Any) -> None:
    from ledger.checkpoints import token_path
    from ledger.files import write_over
    from ledger.signing.timestamps import read_time, request_for

    if arguments.timestamp_request is not None:
        write_over(arguments.timestamp_request, request_for(point.text().encode("utf-8")))
        options = f"--branch {arguments.branch} --size {point.size} --timestamp REPLY"
        print(f"wrote {arguments.timestamp_request}; send it to a time-stamping authority")
        print(f"then: ledger checkpoint {options}")
    if arguments.timestamp is not None:
        reply = arguments.timestamp.read_bytes()
        when = read_time(reply, point.text().encode("utf-8"))
        write_over(token_path(path, point.size), reply)
        print(f"kept the time stamp of {when:%Y-%m-%d %H:%M:%S} UTC; `ledger verify --tsa-root FILE` checks it")


def _cosign(arguments: argparse.Namespace) -> int:
    from ledger.branches import open_branch
    from ledger.checkpoint import checkpoint_of
    from ledger.checkpoints import add_signatures, note_path, stored_sizes
    from ledger.errors import UsageError
    from ledger.signing.keys import load_key

    ledger = open_branch(arguments.root, arguments.branch)
    sizes = stored_sizes(ledger.path)
    size = arguments.size if arguments.size is not None else max(sizes, default=0)
    if size not in sizes:
        listed = ", ".join(map(str, sizes)) or "none"
        raise UsageError(f"found no checkpoint {size} to cosign (there: {listed}); type `ledger checkpoint` first")
    leaves = [entry.leaf for entry in ledger.entries()]
    if size > len(leaves):
        raise UsageError(f"checkpoint {size} is over more entries than the {len(leaves)} here; type `ledger verify`")
    point = checkpoint_of(ledger.origin, leaves[:size])
    key = load_key(arguments.key, arguments.root.resolve())
    add_signatures(ledger.path, point, [key.cosign(point.text(), int(time.time()))])
    print(note_path(ledger.path, size).read_text(encoding="utf-8"), end="")
    return 0
