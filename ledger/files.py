"""Files named by entries: their hashes, their safe paths, and durable writing."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from pathlib import Path, PurePosixPath
from typing import Any

from ledger.errors import FormatError

_CHUNK = 1 << 20


def hash_file(path: Path) -> tuple[str, int]:
    """Return the plain SHA-256 (hex, as ``sha256sum`` prints it) and the size in bytes."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return digest.hexdigest(), size


def safe_path(value: Any, where: str) -> None:
    """Check a relative path in posix spelling that cannot leave its root (code ``path_outside``)."""
    parts = value.split("/") if isinstance(value, str) else [""]
    steps = any(part in ("", ".", "..") for part in parts)
    if steps or ":" in parts[0] or any(sign in value for sign in "\\\0\n\r"):
        raise FormatError(
            "path_outside",
            f"{where}: found the path {value!r}, expected a relative path with / and without . or ..",
        )


def inside(root: Path, relative: str) -> Path:
    """Return ``root / relative`` after following links; FormatError ``path_outside`` if that leaves root."""
    safe_path(relative, "path")
    path = root / relative
    if not path.resolve().is_relative_to(root.resolve()):
        raise FormatError(
            "path_outside", f"{relative} is a link that leads out of {root}; replace it by the file itself"
        )
    return path


def relative_to(root: Path, path: Path) -> str | None:
    """Posix path of ``path`` below ``root``, or None when it lies elsewhere."""
    try:
        return PurePosixPath(path.resolve().relative_to(root.resolve())).as_posix()
    except ValueError:
        return None


def read_plain(path: Path | str) -> bytes:
    """Read a regular file without following a link (FormatError ``symlink``, ``unexpected_file``)."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) or Path(path).is_symlink():
            raise FormatError("symlink", f"{Path(path).name} is a link, expected a regular file") from None
        raise
    try:
        parts = [os.read(descriptor, _CHUNK)]
        while len(parts[-1]):
            parts.append(os.read(descriptor, _CHUNK))
        return b"".join(parts)
    except IsADirectoryError:
        raise FormatError("unexpected_file", f"{Path(path).name} is a folder, expected a file") from None
    finally:
        os.close(descriptor)


def write_new(path: Path, data: bytes) -> None:
    """Create ``path`` with ``data`` and flush it to the disk; FileExistsError if it is there."""
    with path.open("xb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_over(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path`` in one step: a reader sees the old file or the new one, also after a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        write_new(temporary, data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
