"""Whether the workflow runs in this folder already, or was killed here and left Snakemake's lock behind."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path

LOCKS = ".snakemake/locks"
RUNNING = ".snakemake/ridgefill.running"
# What takes no lock, removes it, or is a job of a run that holds it.
NOT_ASKED = frozenset({"--unlock", "--nolock", "--mode", "-n", "--dry-run", "--dryrun"})


def left_by_a_killed_run(folder: Path, arguments: Sequence[str]) -> bool:
    """Whether Snakemake would refuse to run in ``folder`` because of a lock that nobody holds any more.

    Marks this process as running there until it ends, in whatever way: the mark is a file lock, which jobs that
    outlive their Snakemake do not inherit. Where the file system has no locks the answer is no,
    and Snakemake speaks for itself.
    """
    if not NOT_ASKED.isdisjoint(arguments):
        return False
    try:
        descriptor = _opened(folder / RUNNING)
    except OSError:
        return False
    left = any((folder / LOCKS).glob("*.lock")) and _taken(descriptor, fcntl.LOCK_EX)
    _taken(descriptor, fcntl.LOCK_SH)  # stays open, and so held, as long as the process lives
    return left


def _opened(path: Path) -> int:
    path.parent.mkdir(exist_ok=True)
    try:
        # Over NFS a lock for one alone needs a file that is open for writing.
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except PermissionError:  # another user's; the mark of a run is a shared lock, for which reading is enough
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _taken(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
