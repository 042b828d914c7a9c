"""The checkpoints kept beside a ledger: signed notes, the frontier of the tree, and outside time stamps.

``checkpoints/00000014.note`` is a C2SP signed note over the text of the checkpoint of the first 14 entries,
``00000014.tsr`` an RFC 3161 reply over the same text, ``00000014.range.json`` what is needed to go on from
there without reading the entries again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.canonical import canonical, parse_strict
from ledger.checkpoint import Checkpoint, parse_checkpoint
from ledger.entry import Entry
from ledger.errors import FormatError, UsageError
from ledger.files import read_plain, write_over
from ledger.merkle import Range
from ledger.shapes import array, natural, record, sha256

if TYPE_CHECKING:
    from ledger.signing.notes import Note, Signature, VerifierKey

CHECKPOINTS = "checkpoints"
_NAMES = re.compile(r"([0-9]{8})\.(note|tsr|range\.json)")
_range_shape = record({"size": natural, "nodes": array(sha256), "last": sha256})


def checkpoints_folder(ledger: Path) -> Path:
    """Folder of a ledger's checkpoints; absent when there are none."""
    return ledger / CHECKPOINTS


def note_path(ledger: Path, size: int) -> Path:
    """Signed note over the checkpoint of the first ``size`` entries."""
    return checkpoints_folder(ledger) / f"{size:08d}.note"


def token_path(ledger: Path, size: int) -> Path:
    """RFC 3161 reply over the text of the same checkpoint."""
    return checkpoints_folder(ledger) / f"{size:08d}.tsr"


def range_path(ledger: Path, size: int) -> Path:
    """Frontier of the tree over the same entries."""
    return checkpoints_folder(ledger) / f"{size:08d}.range.json"


def stored_sizes(ledger: Path) -> tuple[int, ...]:
    """Sizes for which a signed note is there, smallest first."""
    return tuple(size for size, kind in _stored(ledger) if kind == "note")


def stray_names(ledger: Path) -> tuple[str, ...]:
    """Names in the folder that no checkpoint can have."""
    folder = checkpoints_folder(ledger)
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return tuple(name for name in names if not _NAMES.fullmatch(name) and not name.endswith(".tmp"))


def _stored(ledger: Path) -> list[tuple[int, str]]:
    folder = checkpoints_folder(ledger)
    names = sorted(os.listdir(folder)) if folder.is_dir() else []
    return [(int(match[1]), match[2]) for name in names if (match := _NAMES.fullmatch(name))]


@dataclass(frozen=True)
class Stored:
    """A stored note and the checkpoint its text says."""

    point: Checkpoint
    note: Note


def read_note(ledger: Path, size: int) -> Stored:
    """Read one stored note; FormatError when it is none, or says another size than its name."""
    from ledger.signing.notes import parse_note

    note = parse_note(read_plain(note_path(ledger, size)))
    point = parse_checkpoint(note.text)
    if point.size != size:
        raise FormatError("bad_checkpoint", f"found size {point.size} inside the checkpoint named {size:08d}")
    return Stored(point, note)


def add_signatures(ledger: Path, point: Checkpoint, signatures: Sequence[Signature]) -> Note:
    """Add signatures to the note of ``point``, writing it when it is new; those it has are kept.

    UsageError when the note on the disk is over another root.
    """
    from ledger.signing.notes import Note

    kept: tuple[Signature, ...] = ()
    if point.size in stored_sizes(ledger):
        stored = read_note(ledger, point.size)
        if stored.point != point:
            raise UsageError(f"{note_path(ledger, point.size)} is over another root; type `ledger verify`")
        kept = stored.note.signatures
    ids = {(item.name, item.key_id) for item in kept}
    note = Note(point.text(), (*kept, *(item for item in signatures if (item.name, item.key_id) not in ids)))
    write_over(note_path(ledger, point.size), note.encode())
    return note


def write_range(ledger: Path, leaves: Sequence[str]) -> None:
    """Write the frontier after all ``leaves`` (hex) but the last, and the last."""
    before = Range.empty().extend(bytes.fromhex(leaf) for leaf in leaves[:-1])
    value = {"size": len(leaves), "nodes": [node.hex() for node in before.nodes], "last": leaves[-1]}
    write_over(range_path(ledger, len(leaves)), canonical(value))


def read_range(ledger: Path, point: Checkpoint) -> tuple[Range, str]:
    """The frontier at ``point`` and the hex leaf hash of its last entry, proven against the root of ``point``.

    FormatError ``bad_range`` when the file does not lead to that root.
    """
    value = parse_strict(read_plain(range_path(ledger, point.size)))
    _range_shape(value, "range")
    nodes = tuple(bytes.fromhex(node) for node in value["nodes"])
    found = Range(value["size"] - 1, nodes).extend([bytes.fromhex(value["last"])])
    if found.size != point.size or found.root() != point.root:
        raise FormatError("bad_range", f"the frontier beside checkpoint {point.size} does not lead to its root")
    return found, str(value["last"])


def known_keys(entries: Sequence[Entry]) -> tuple[VerifierKey, ...]:
    """The keys that ``key`` entries name, in their order; entries that cannot be read say nothing."""
    from ledger.signing.notes import parse_verifier_key

    found = []
    for entry in entries:
        if entry.kind == "key" and entry.body is not None:
            try:
                found.append(parse_verifier_key(entry.body["public_key"]))
            except FormatError:
                continue  # reported by ledger.custody
    return tuple(found)
