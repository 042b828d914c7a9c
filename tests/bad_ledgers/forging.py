"""Tools that write, break and forge entries of a ledger, past every check of the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ledger.canonical import canonical
from ledger.entry import body_commitment
from ledger.merkle import leaf_hash

MAIN = "data/ledger/main"
NOON = "2026-12-01T00:00:00Z"
SALT = "5a" * 32
GONE = object()


def entry(root: Path, seq: int, branch: str = MAIN) -> Path:
    """Header file."""
    return root / branch / "entries" / f"{seq:08d}.json"


def body(root: Path, seq: int, branch: str = MAIN) -> Path:
    """Body file."""
    return root / branch / "bodies" / f"{seq:08d}.json"


def salt(root: Path, seq: int, branch: str = MAIN) -> Path:
    """Salt file."""
    return root / branch / "salts" / f"{seq:08d}"


def forge(root: Path, seq: int, fields: dict[str, Any], branch: str = MAIN, **header: Any) -> None:
    """Write an entry whose hashes are all right, whatever it says; GONE removes a body field."""
    previous = leaf_hash(entry(root, seq - 1, branch).read_bytes()).hex() if seq else None
    first = json.loads(entry(root, 0, branch).read_bytes())
    head = {
        "version": 1, "origin": first["origin"], "seq": seq, "prev": previous, "kind": "result",
        "time": NOON, "grade": None, **header,
    }  # fmt: skip
    whole = {"origin": head["origin"], "time": head["time"], **fields}
    data = canonical({key: value for key, value in whole.items() if value != GONE})
    head["body_commit"] = body_commitment(bytes.fromhex(SALT), data)
    body(root, seq, branch).write_bytes(data)
    salt(root, seq, branch).write_text(SALT)
    entry(root, seq, branch).write_bytes(canonical(head))


def stored(root: Path, seq: int, branch: str = MAIN) -> dict[str, Any]:
    """The parsed body of an entry."""
    value: dict[str, Any] = json.loads(body(root, seq, branch).read_bytes())
    return value


def reforge(root: Path, seq: int, fields: dict[str, Any], branch: str = MAIN, **header: Any) -> None:
    """Forge entry ``seq`` again with some fields changed, keeping its kind, time and grade."""
    old = json.loads(entry(root, seq, branch).read_bytes())
    kept = {key: old[key] for key in ("kind", "time", "grade")}
    forge(root, seq, {**stored(root, seq, branch), **fields}, branch, **{**kept, **header})


def replace(path: Path, old: bytes, new: bytes) -> None:
    """Replace bytes that must be there."""
    data = path.read_bytes()
    if old not in data:
        raise ValueError(f"{old!r} is not in {path}")
    path.write_bytes(data.replace(old, new, 1))


def swap(one: Path, two: Path) -> None:
    """Exchange two files."""
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(second)
    two.write_bytes(first)


def flip(path: Path, at: int) -> None:
    """Flip the lowest bit of one byte."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def forget(root: Path, *numbers: int, branch: str = MAIN) -> None:
    """Drop entries from the end, all three files of each."""
    for seq in numbers:
        for path in (entry, body, salt):
            path(root, seq, branch).unlink()


def put(path: Path, text: str) -> None:
    """Write a file, making its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, newline="\n")
