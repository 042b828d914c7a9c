"""Members of a wheel or of a source distribution: one way to read both, and nothing is ever extracted by path."""

from __future__ import annotations

import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath

from ridgefill.errors import TextError

# What the two readers raise for bytes that are not what they say; RuntimeError covers encrypted members and
# compressions that are not known, ValueError names that cannot be decoded.
_DAMAGED = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, struct.error),
    *(EOFError, OSError, RuntimeError, ValueError),
)


def read_members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """(path inside the archive, bytes) of the regular files that are ``wanted``, in name order.

    Wheels are zip files, source distributions are zip files or tar files under any compression. Absolute
    paths, paths with ``..``, links and devices are passed over, whatever ``wanted`` says. Raises TextError
    for a file that is neither, or that is damaged.
    """
    try:
        if zipfile.is_zipfile(archive):
            yield from _zip_members(archive, wanted)
        elif tarfile.is_tarfile(archive):
            yield from _tar_members(archive, wanted)
        else:
            raise TextError(f"could not unpack {archive.name}: it is neither a zip nor a tar file; fetch it again")
    except _DAMAGED as error:
        raise TextError(f"could not unpack {archive.name} ({error}); free some disk or fetch again") from None


def _zip_members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as opened:
        for name in sorted(name for name in opened.namelist() if is_inside(name) and wanted(name)):
            yield name, opened.read(name)


def _tar_members(archive: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as opened:
        files = [member for member in opened.getmembers() if member.isreg() and is_inside(member.name)]
        for member in sorted(files, key=lambda member: member.name):
            stream = opened.extractfile(member) if wanted(member.name) else None
            if stream is not None:
                yield member.name, stream.read()


def is_inside(name: str) -> bool:
    """Whether a path is of a file that stays below the folder it is put in."""
    path = PurePosixPath(name)
    return bool(name) and not (path.is_absolute() or ".." in path.parts or name.endswith("/") or "\0" in name)
