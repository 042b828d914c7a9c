"""``SHA256SUMS``: every file of a folder, in the format that ``sha256sum -c`` reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from ledger.errors import FormatError, OutputMismatch
from ledger.files import hash_file, read_plain, safe_path

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\n]+)\n")


def listed_files(folder: Path) -> Iterator[str]:
    """Paths below ``folder`` that a list has to name, sorted; the list itself and ``.git`` are left out.

    FormatError for a link or a name that the format cannot hold.
    """
    found = []
    for place, names, files in os.walk(folder):
        if Path(place) == folder:
            names[:] = [name for name in names if name != ".git"]
        for name in (*files, *(name for name in names if (Path(place) / name).is_symlink())):
            path = Path(place) / name
            relative = path.relative_to(folder).as_posix()
            safe_path(relative, "file name")
            if path.is_symlink():
                raise FormatError("symlink", f"{path} is a link; replace it by the file itself")
            if relative not in (SUMS, ".git"):
                found.append(relative)
    yield from sorted(found)


def sums_of(folder: Path) -> bytes:
    """The list for a folder as it is now."""
    return "".join(f"{hash_file(folder / path)[0]}  {path}\n" for path in listed_files(folder)).encode("utf-8")


def check_sums(folder: Path) -> int:
    """How many files the list names, once each has the listed bytes and none is missing from it.

    OutputMismatch names the first file that differs, FormatError a list that cannot be read.
    """
    try:
        text = read_plain(folder / SUMS).decode("utf-8")
    except FileNotFoundError:
        raise FormatError("bad_sums", f"{folder} has no {SUMS}; ask for the whole folder again") from None
    except UnicodeDecodeError:
        raise FormatError("bad_sums", f"{folder / SUMS} is not UTF-8 text") from None
    listed = {match[2]: match[1] for match in _LINE.finditer(text)}
    if "".join(f"{digest}  {path}\n" for path, digest in listed.items()) != text:
        raise FormatError("bad_sums", f"{folder / SUMS} is not a list of hashes and paths as sha256sum writes it")
    present = list(listed_files(folder))
    for path in sorted(listed.keys() ^ set(present)):
        where = f"is not listed in {SUMS}" if path in present else f"is listed in {SUMS} and not there"
        raise OutputMismatch(f"{folder / path} {where}; ask for the whole folder again")
    for path in present:
        found = hash_file(folder / path)[0]
        if found != listed[path]:
            raise OutputMismatch(f"{folder / path} has sha256 {found[:12]}, {SUMS} says {listed[path][:12]}")
    return len(present)
