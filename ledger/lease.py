"""A lease: at most one process works on a run at a time, and a dead process holds nothing."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from ledger.branches import ledger_home
from ledger.errors import Busy, WriteFailed


def lease_path(root: Path, experiment: str, run_id: str, label: str) -> Path:
    """Lease file of a run; shared by all branches, since they write to the same result folder."""
    digest = hashlib.sha256("\0".join((experiment, run_id, label)).encode("utf-8")).hexdigest()
    return ledger_home(root) / ".leases" / f"{experiment}.{run_id}.{digest[:16]}.lock"


@contextlib.contextmanager
def lease(root: Path, experiment: str, run_id: str, label: str) -> Iterator[Path]:
    """Hold the lease of a run while the block runs; Busy names the process that has it.

    The lock belongs to the open file, so the system frees it when the process ends in any way.
    """
    path = lease_path(root, experiment, run_id, label)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), (path.parent / ".gitignore").open("x") as ignore:
            ignore.write("*\n")
        descriptor = _lock(path, f"{experiment} {run_id} {label}".rstrip())
    except OSError as failure:
        raise WriteFailed(f"cannot take the lease {path} ({failure.strerror})") from None
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)  # while still locked, so that nobody's newer file is removed
        os.close(descriptor)


def _lock(path: Path, run: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise Busy(f"another attempt of {run} is running ({holder}); wait for it to end, or stop it") from None
        except OSError:
            os.close(descriptor)
            raise
        if _still_there(path, descriptor):
            os.ftruncate(descriptor, 0)
            owner = {"pid": os.getpid(), "host": socket.gethostname()}
            os.write(descriptor, json.dumps(owner).encode("utf-8"))
            return descriptor
        os.close(descriptor)  # the holder before removed this file after it was opened here


def _still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> str:
    try:
        owner = json.loads(os.read(descriptor, 4096))
        return f"process {owner['pid']} on {owner['host']}"
    except (ValueError, KeyError, TypeError, OSError):
        return "an unknown process"
