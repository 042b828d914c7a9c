"""Which files a command wrote below its results folder, and the rows that a ``result`` entry keeps of them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ledger.errors import FormatError, UsageError
from ledger.files import hash_file, safe_path

Seen = Mapping[str, tuple[int, int, int]]
"""Path below a folder -> (modification time in ns, size in bytes, inode) of a regular file."""


def snapshot(folder: Path) -> Seen:
    """Every regular file below ``folder``, by posix path; links are neither followed nor listed."""
    found: dict[str, tuple[int, int, int]] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            try:
                state = path.lstat()
            except FileNotFoundError:
                continue  # removed since the folder was listed
            if stat.S_ISREG(state.st_mode):
                found[path.relative_to(folder).as_posix()] = (state.st_mtime_ns, state.st_size, state.st_ino)
    return found


def changed(before: Seen, after: Seen) -> tuple[str, ...]:
    """Paths that are new in ``after`` or differ from ``before``, sorted."""
    return tuple(sorted(path for path, state in after.items() if before.get(path) != state))


def check_patterns(patterns: Iterable[str]) -> None:
    """UsageError for a pattern that cannot name a file below a folder."""
    for pattern in patterns:
        if any(part in ("", ".", "..") for part in pattern.split("/")):
            raise UsageError(
                f"found the output pattern {pattern!r}, expected a path below the results folder like fit/*.parquet"
            )


def matching(patterns: Iterable[str], paths: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(paths that match a pattern, patterns that match nothing), sorted.

    ``*``, ``?`` and ``[...]`` stand for signs of one name, ``**`` for any number of folders.
    """
    known, found, idle = sorted(paths), set(), set()
    for pattern in patterns:
        hits = [path for path in known if _matches(pattern.split("/"), path.split("/"))]
        found |= set(hits)
        idle |= set() if hits else {pattern}
    return tuple(sorted(found)), tuple(sorted(idle))


def _matches(pattern: Sequence[str], path: Sequence[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return _matches(pattern[1:], path) or (bool(path) and _matches(pattern, path[1:]))
    return bool(path) and fnmatchcase(path[0], pattern[0]) and _matches(pattern[1:], path[1:])


@dataclass(frozen=True)
class Outputs:
    """Rows for a ``result`` entry, and one sentence for each file or pattern that gave none."""

    rows: tuple[Mapping[str, Any], ...]
    problems: tuple[str, ...]


def hashed(folder: Path, paths: Iterable[str], published: bool, idle: Iterable[str] = ()) -> Outputs:
    """Hash files below ``folder``; ``idle`` are patterns that matched none, which is a problem as well."""
    rows: list[Mapping[str, Any]] = []
    problems = [f"the output pattern {pattern!r} matches no file in the results folder" for pattern in idle]
    for path in paths:
        try:
            safe_path(path, "output")
            path.encode("utf-8")
            digest, size = hash_file(folder / path)
        except (FormatError, UnicodeEncodeError):
            problems.append(f"the output {path!r} has a name that no entry can hold")
        except OSError as failure:
            problems.append(f"the output {path!r} cannot be read ({failure.strerror})")
        else:
            rows.append({"path": path, "sha256": digest, "bytes": size, "published": published})
    return Outputs(tuple(rows), tuple(problems))
