"""The three folders of a ledger and the names allowed in them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

ENTRIES, BODIES, SALTS = "entries", "bodies", "salts"
FOLDERS = (ENTRIES, BODIES, SALTS)
TEMPORARY = ".tmp"
_NUMBERED = {
    ENTRIES: re.compile(r"([0-9]{8})\.json"),
    BODIES: re.compile(r"([0-9]{8})\.json"),
    SALTS: re.compile(r"([0-9]{8})"),
}


def is_ledger(path: Path) -> bool:
    """Whether ``path`` holds a ledger (it has an ``entries`` folder)."""
    return (path / ENTRIES).is_dir()


def numbered(folder: str, seq: int) -> str:
    """Name of the file of entry ``seq`` in one of the three folders."""
    return f"{seq:08d}" if folder == SALTS else f"{seq:08d}.json"


def entry_path(ledger: Path, seq: int) -> Path:
    """Header file of entry ``seq``."""
    return ledger / ENTRIES / numbered(ENTRIES, seq)


def body_path(ledger: Path, seq: int) -> Path:
    """Body file of entry ``seq``."""
    return ledger / BODIES / numbered(BODIES, seq)


def salt_path(ledger: Path, seq: int) -> Path:
    """Salt file of entry ``seq``."""
    return ledger / SALTS / numbered(SALTS, seq)


def staged_path(ledger: Path, folder: str, commit: str) -> Path:
    """Where a body or salt waits, named by its commitment, until its header has been linked."""
    return ledger / folder / f"{commit}{TEMPORARY}"


@dataclass(frozen=True)
class Listing:
    """Names in one folder, sorted into numbered, temporary and strange ones."""

    numbers: frozenset[int]
    temporary: tuple[str, ...]
    strange: tuple[str, ...]


def listing(ledger: Path, folder: str, after: int = 0) -> Listing:
    """Read one folder once, passing over entries before number ``after``; an absent folder is an empty one.

    (git keeps no empty folders.)
    """
    try:
        names = os.listdir(ledger / folder)
    except FileNotFoundError:
        names = []
    if after:
        # A long ledger has far more names than news, and comparing text is cheaper than matching it.
        first, end = f"{after:08d}", numbered(folder, 0)[8:]
        names = [name for name in names if not (name[:8].isdecimal() and name[:8] < first and name[8:] == end)]
    matches = {name: _NUMBERED[folder].fullmatch(name) for name in sorted(names)}
    others = [name for name, match in matches.items() if match is None]
    return Listing(
        numbers=frozenset(int(match[1]) for match in matches.values() if match),
        temporary=tuple(name for name in others if name.endswith(TEMPORARY)),
        strange=tuple(name for name in others if not name.endswith(TEMPORARY)),
    )
