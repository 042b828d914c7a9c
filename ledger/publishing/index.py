"""Publish one branch into a folder that is itself a project: a copy that withholds bodies and still verifies.

Everything is read, hashed and compared before the first byte is written. A new folder is built beside its
place and renamed; an index that is there only gains files.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger import folders
from ledger.branches import branch_names, branch_path, ledger_home
from ledger.errors import FormatError, UsageError, WriteFailed
from ledger.files import sync_folder, write_over
from ledger.publishing.gathering import Source, gather
from ledger.publishing.marker import INDEX, read_index
from ledger.publishing.pages import INDEX_PAGE, describe, json_bytes, page
from ledger.publishing.redaction import ATTRIBUTES
from ledger.publishing.standing import sound_chain
from ledger.publishing.sums import SUMS, sums_of

GIT = ".git"


@dataclass(frozen=True)
class Published:
    """What one publication did: paths added and replaced, bodies shown of how many, and pinned files left out.

    ``revealed`` are the entries of an index that was there whose bodies became readable now.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    shown: int
    size: int
    revealed: tuple[int, ...]
    changed: tuple[str, ...]


def publish(
    root: Path,
    folder: Path,
    branch: str,
    withhold: Sequence[str] = (),
    kinds: Sequence[str] = (),
    results: bool = False,
) -> Published:
    """Publish ``branch`` of the project at ``root`` into ``folder``.

    ``withhold`` are spans of entry numbers like ``3,5-7``, ``kinds`` kinds of entries whose bodies stay out.
    UsageError when the folder holds anything that this would contradict, OutputMismatch when a result file
    is not the recorded one; nothing is written then.
    """
    chain = sound_chain(root, branch)
    old = _previous(root, folder)
    with_results = results or bool(old and old["results"])
    gathered = gather(root, chain, branch, withhold, kinds, with_results)
    before = _check_compatible(folder, branch, chain.origin, gathered.ledger)
    work = {path: source for path, source in gathered.files.items() if not source.is_at(folder / path)}
    replaced = tuple(sorted(path for path in work if (folder / path).exists()))
    try:
        _write(folder, work, with_results)
    except OSError as failure:
        raise WriteFailed(
            f"cannot write {folder} ({failure.strerror}); make room or allow writing, then publish again"
        ) from None
    return Published(
        added=tuple(sorted(work.keys() - set(replaced))),
        replaced=replaced,
        shown=len(gathered.shown),
        size=len(chain.entries),
        revealed=tuple(sorted(gathered.shown & before.entries - before.bodies)),
        changed=gathered.changed,
    )


@dataclass(frozen=True)
class _Before:
    entries: frozenset[int]
    bodies: frozenset[int]


def _previous(root: Path, folder: Path) -> Mapping[str, object] | None:
    """The index in ``folder``, None for a new one; UsageError for a folder with anything else in it."""
    if folder.resolve().is_relative_to(ledger_home(root).resolve()):
        raise UsageError(f"{folder} lies among the ledgers of {root}; name a folder of its own")
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file, expected a folder")
    try:
        index = read_index(folder) if folder.is_dir() else None
    except FormatError as failure:
        raise UsageError(f"{failure}; name a new folder or a published one") from None
    if index is None and folder.is_dir() and set(os.listdir(folder)) - {GIT}:
        raise UsageError(f"{folder} is not empty and holds no {INDEX}; name a new folder or a published one")
    return index


def _check_compatible(folder: Path, branch: str, origin: str, ledger: Mapping[str, Source]) -> _Before:
    """UsageError when the folder holds entries, bodies or checkpoints that the new ones contradict."""
    there = branch_path(folder, branch)
    numbers = {name: folders.listing(there, name).numbers for name in folders.FOLDERS}
    for name in branch_names(folder):
        if name != branch and sound_chain(folder, name).origin == origin:
            raise UsageError(f"{folder} has the ledger {origin} as branch {name}; publish it under that name")
    for name, place in ((folders.ENTRIES, folders.entry_path), (folders.BODIES, folders.body_path)):
        for seq in sorted(numbers[name]):
            if place(Path("data/ledger") / branch, seq).as_posix() in ledger:
                continue
            if name == folders.ENTRIES:
                raise UsageError(f"{folder} has an entry #{seq} of {branch} that the ledger has not; name a new folder")
            raise UsageError(
                f"the body of #{seq} is published in {folder} already and cannot be withheld there any more; "
                "name a new folder, or drop --withhold for it"
            )
    for path, source in ledger.items():
        if (folder / path).exists() and not source.continues(folder / path):
            raise UsageError(f"{folder / path} is not what the ledger has for it; name a new folder")
    return _Before(numbers[folders.ENTRIES], numbers[folders.BODIES])


def _write(folder: Path, work: Mapping[str, Source], results: bool) -> None:
    if folder.is_dir() and os.listdir(folder):
        _fill(folder, work, results)
        return
    folder = folder.absolute()
    staging = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}.tmp")
    try:
        staging.mkdir(parents=True)
        _fill(staging, work, results)
        os.replace(staging, folder)
        sync_folder(folder.parent)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _fill(folder: Path, work: Mapping[str, Source], results: bool) -> None:
    for path, source in work.items():
        write_over(folder / path, source.read())
    index = describe(folder, results)
    own = {".gitattributes": ATTRIBUTES, INDEX: json_bytes(index), INDEX_PAGE: page(index).encode("utf-8")}
    for name, data in own.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != data:
            write_over(folder / name, data)
    write_over(folder / SUMS, sums_of(folder))
