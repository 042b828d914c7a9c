"""Tools that write, break and forge entries of a ledger, past every check of the package."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ledger.canonical import canonical
from ledger.chain import read_chain
from ledger.checkpoint import Checkpoint, checkpoint_of
from ledger.checkpoints import add_signatures, write_range
from ledger.entry import body_commitment
from ledger.merkle import leaf_hash
from ledger.seeds import run_seed
from ledger.signing.keys import SigningKey
from ledger.signing.notes import Note

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


def key_of_tests(name: str) -> SigningKey:
    """A private key that follows from its name, so it protects nothing: for tests only."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    secret = hashlib.sha256(f"test key, worthless: {name}".encode()).digest()
    return SigningKey(name, Ed25519PrivateKey.from_private_bytes(secret))


def point_at(root: Path, size: int, branch: str = MAIN) -> Checkpoint:
    """The checkpoint of the first ``size`` entries of a branch."""
    chain = read_chain(root / branch)
    return checkpoint_of(chain.origin, chain.leaves[:size])


def signed(root: Path, size: int, *keys: SigningKey, branch: str = MAIN) -> Note:
    """Store the checkpoint of the first ``size`` entries with the signatures of ``keys``, and its frontier."""
    point = point_at(root, size, branch)
    write_range(root / branch, read_chain(root / branch).leaves[:size])
    return add_signatures(root / branch, point, [key.sign(point.text()) for key in keys])


def cosigned_at(root: Path, size: int, key: SigningKey, time: int, branch: str = MAIN) -> Note:
    """Add a cosignature of ``time`` (POSIX seconds) to a stored checkpoint."""
    point = point_at(root, size, branch)
    return add_signatures(root / branch, point, [key.cosign(point.text(), time)])


def write_table(path: Path, rows: Iterable[dict[str, Any]], metadata: dict[str, str] | None = None) -> str:
    """Write rows of model ``m`` in the long layout as Parquet; returns the hex SHA-256."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"metric": pa.string(), "arm": pa.string(), "model": pa.string(), "split": pa.int32()}
    schema = pa.schema({**kinds, "item": pa.string(), "value": pa.float64()}, metadata=metadata)
    table = pa.Table.from_pylist([{"model": "m", "split": 19, **row} for row in rows], schema=schema)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def forge_start(
    root: Path, seq: int, version: int, branch: str = MAIN, *, registered_on: str = MAIN, time: str = NOON, **body: Any
) -> str:
    """Forge a start of run ``ruler`` under registration or amendment ``version``; returns its seed."""
    said = stored(root, version, registered_on)
    leaf = leaf_hash(entry(root, version, registered_on).read_bytes()).hex()
    seed = str(run_seed(leaf, f"ruler/{seq}"))
    fields = {
        "registration": {"origin": said["origin"], "seq": version, "leaf": leaf},
        "experiment": said["experiment"], "run": "ruler", "label": str(seq), "seed": seed,
        "configs": said["configs"], "overrides": {}, "inputs": [], "git": None,
    }  # fmt: skip
    forge(root, seq, {**fields, **body}, branch, kind="start", time=time)
    return seed


def forge_result(root: Path, seq: int, start: int, outputs: dict[str, str], branch: str = MAIN) -> None:
    """Forge an ok result of ``start``; ``outputs`` maps paths to hex SHA-256, all of them published."""
    leaf = leaf_hash(entry(root, start, branch).read_bytes()).hex()
    rows = [{"path": path, "sha256": sha256, "bytes": 1, "published": True} for path, sha256 in outputs.items()]
    fields = {"start": {"seq": start, "leaf": leaf}, "status": "ok", "message": "", "outputs": rows}
    forge(root, seq, fields, branch)
