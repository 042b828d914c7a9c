"""A lease: at most one process works on a run at a time, and a dead process holds nothing.

The lock belongs to the open file, so the system frees it when the last process that has the file open ends,
in any way. A command that a run executes is given the file too: while it works, its run has not ended, even if
the process that started it was killed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.branches import ledger_home
from ledger.errors import Busy, WriteFailed


def lease_path(root: Path, experiment: str, run_id: str, label: str) -> Path:
    """Lease file of a run; shared by all branches, since they write to the same result folder."""
    digest = hashlib.sha256("\0".join((experiment, run_id, label)).encode("utf-8")).hexdigest()
    return ledger_home(root) / ".leases" / f"{experiment}.{run_id}.{digest[:16]}.lock"


@dataclass(frozen=True)
class Lease:
    """A lease that is held: its file, and the descriptor that locks it."""

    path: Path
    descriptor: int

    def describe(self, start: str | None = None, pid: int | None = None) -> None:
        """Write down who has it: the leaf hash of the ``start`` it is for, and the process (default: this one)."""
        owner = {"pid": pid or os.getpid(), "host": socket.gethostname(), "start": start}
        data = json.dumps(owner).encode("utf-8")
        os.pwrite(self.descriptor, data, 0)
        os.ftruncate(self.descriptor, len(data))


@dataclass(frozen=True)
class Holder:
    """Who has a lease: in words, and the leaf hash of the start it is for, if that was written yet."""

    words: str
    start: str | None


@contextlib.contextmanager
def lease(root: Path, experiment: str, run_id: str, label: str) -> Iterator[Lease]:
    """Hold the lease of a run while the block runs; Busy names the process that has it."""
    path = lease_path(root, experiment, run_id, label)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError), (path.parent / ".gitignore").open("x") as ignore:
            ignore.write("*\n")
        held = _lock(path, f"{experiment} {run_id} {label}".rstrip())
    except OSError as failure:
        raise WriteFailed(f"cannot take the lease {path} ({failure.strerror})") from None
    try:
        yield held
    finally:
        path.unlink(missing_ok=True)  # while still locked, so that nobody's newer file is removed
        os.close(held.descriptor)


def holder_of(root: Path, experiment: str, run_id: str, label: str) -> Holder | None:
    """Who has the lease of a run now; None when nobody does."""
    try:
        descriptor = os.open(lease_path(root, experiment, run_id, label), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return None if _shared(descriptor) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _lock(path: Path, run: str) -> Lease:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            only_asked, holder = _shared(descriptor), _holder(descriptor)
            os.close(descriptor)
            if only_asked:
                continue
            raise Busy(
                f"another attempt of {run} is running ({holder.words}); wait for it to end, or stop it"
            ) from None
        except OSError:
            os.close(descriptor)
            raise
        if _still_there(path, descriptor):
            held = Lease(path, descriptor)
            held.describe()
            return held
        os.close(descriptor)  # the holder before removed this file after it was opened here


def _shared(descriptor: int) -> bool:
    """Whether nobody holds the lock: a shared lock, as those take who only ask, can be had."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(descriptor: int) -> Holder:
    try:
        owner: dict[str, Any] = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(f"process {owner['pid']} on {owner['host']}", owner.get("start"))
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return Holder("an unknown process", None)
