"""Which bodies a publication withholds, and the files of a branch that are left."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ledger import folders
from ledger.bodies import BODY_CHECKS
from ledger.canonical import canonical
from ledger.chain import Chain
from ledger.checkpoints import note_path, range_path, stored_sizes, token_path
from ledger.entry import Entry
from ledger.errors import BrokenLedger, UsageError
from ledger.files import read_plain

_SPAN = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8}))?")
ATTRIBUTES = b"* -text\n"


def withheld_numbers(chain: Chain, spans: Sequence[str], kinds: Sequence[str]) -> frozenset[int]:
    """Entries named by spans like ``3,5-7`` or by kind; UsageError for any that cannot be meant."""
    last, found = len(chain.entries) - 1, set[int]()
    for part in (part for span in spans for part in span.split(",")):
        match = _SPAN.fullmatch(part)
        first, end = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not first <= end <= last:
            raise UsageError(f"found --withhold {part!r}, expected numbers 0 to {last} like 3 or 5-7; see `ledger log`")
        found.update(range(first, end + 1))
    for kind in kinds:
        if kind not in BODY_CHECKS:
            raise UsageError(f"found --withhold-kind {kind!r}, expected one of {', '.join(BODY_CHECKS)}")
        found.update(entry.seq for entry in chain.entries if entry.kind == kind)
    return frozenset(found)


def redacted(chain: Chain, withheld: Collection[int]) -> Chain:
    """The chain as its readers will see it: without the withheld bodies."""
    return replace(chain, entries=tuple(_shown(entry, withheld) for entry in chain.entries))


def _shown(entry: Entry, withheld: Collection[int]) -> Entry:
    return replace(entry, body=None) if entry.seq in withheld else entry


def branch_files(chain: Chain, shown: Chain) -> dict[str, bytes]:
    """Every ledger file of a redacted branch, by its path below the branch's folder.

    The bytes of headers and bodies are those stored, which are the only ones their values can have.
    """
    files = {".gitattributes": ATTRIBUTES}
    for entry in shown.entries:
        files[_below(folders.entry_path, entry.seq)] = canonical(dict(entry.header))
        if entry.body is not None:
            files[_below(folders.body_path, entry.seq)] = canonical(dict(entry.body))
            files[_below(folders.salt_path, entry.seq)] = stored_salt(chain.path, entry)
    for size in stored_sizes(chain.path):
        if size <= len(chain.leaves):
            for place in (note_path, token_path, range_path):
                if place(chain.path, size).exists():
                    files[_below(place, size)] = read_plain(place(chain.path, size))
    return files


def stored_salt(ledger: Path, entry: Entry) -> bytes:
    """The salt file of an entry, under its number or, after a crash, under its commitment."""
    staged = folders.staged_path(ledger, folders.SALTS, str(entry.header["body_commit"]))
    for path in (folders.salt_path(ledger, entry.seq), staged, folders.salt_path(ledger, entry.seq)):
        try:
            return read_plain(path)
        except FileNotFoundError:
            continue
    raise BrokenLedger(f"the salt of entry #{entry.seq} is gone from {ledger}; type `ledger verify`")


def pinned_files(entries: Iterable[Entry]) -> dict[tuple[str, str], list[int]]:
    """(path, hex SHA-256) -> numbers of the shown registrations and amendments that pin it."""
    found: dict[tuple[str, str], list[int]] = {}
    for entry in entries:
        if entry.body is not None and "claim_file" in entry.body:
            for item in (entry.body["claim_file"], *entry.body["configs"]):
                found.setdefault((item["path"], item["sha256"]), []).append(entry.seq)
    return found


def _below(place: Callable[[Path, int], Path], number: int) -> str:
    return place(Path(), number).as_posix()
