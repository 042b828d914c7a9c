"""Files that are either complete or not there: write to ``*.tmp``, fsync, rename."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path

from ridgefill.errors import ResultsError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; on success it is synced and takes ``path``'s place.

    On failure ``path`` is untouched and the temporary file is removed. A full disk is a ``ResultsError``. What a killed
    process left of an earlier try is removed first.
    """
    path = Path(path)
    try:
        with _beside(path) as temporary:
            yield temporary
            for written in sorted(temporary.rglob("*")) if temporary.is_dir() else ():
                _sync(written)
            _sync(temporary)
            os.replace(temporary, path)
            _sync(path.parent)
    except OSError as error:
        raise ResultsError(
            f"{path} could not be written ({error.strerror or error}); free space or fix permissions, then run again"
        ) from error


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside ``path`` that is gone after the block, as are those that killed processes left."""
    with _beside(path) as temporary:
        temporary.mkdir()
        yield temporary


@contextmanager
def _beside(path: Path) -> Iterator[Path]:
    """A name beside ``path`` that is no other process's; what is there in the end is removed."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"{escape(path.name)}.*.tmp"):
            if not _at_work(left.suffixes[-2][1:]):
                _remove(left)
        yield temporary
    finally:
        try:
            _remove(temporary)
        finally:  # again, as Ctrl-C may have come in the middle of it
            _remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Write ``text`` as UTF-8, atomically."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a file's bytes."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _at_work(pid: str) -> bool:
    """Whether a process of that number is there and not this one, which has only begun: numbers are used again."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, ValueError, OverflowError):  # another user's, or no temporary file of ours
        return True
    return int(pid) != os.getpid()


def _remove(temporary: Path) -> None:
    if temporary.is_dir():
        shutil.rmtree(temporary, ignore_errors=True)
    else:
        with suppress(OSError):
            temporary.unlink()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
