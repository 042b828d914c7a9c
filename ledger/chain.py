"""Read a whole ledger, entry by entry, and say everything that is wrong with its chain.

What is checked here needs no file outside the ledger's folder: names, numbers, bytes, links, commitments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ledger import folders
from ledger.entry import Entry, open_body, parse_header
from ledger.errors import FormatError, NoLedger
from ledger.files import read_plain
from ledger.findings import Finding, error, from_format, note, warning
from ledger.merkle import leaf_hash


@dataclass(frozen=True)
class Chain:
    """Every entry that could be read, and every finding; complete only when no finding is an error."""

    path: Path
    origin: str
    leaves: tuple[str, ...]
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)


@dataclass(frozen=True)
class Prefix:
    """Entries that something else vouches for: how many, the hex leaf hash of the last, and their origin."""

    size: int
    last: str | None
    origin: str | None


NOTHING = Prefix(0, None, None)


def read_chain(path: Path, after: Prefix = NOTHING) -> Chain:
    """Read the ledger in folder ``path``, or only what follows ``after``. Raises NoLedger when there is none."""
    if not folders.is_ledger(path):
        raise NoLedger(f"there is no ledger in {path}; type `ledger init` to open one, or pass --root")
    return _Reader(path, after).read()


class _Reader:
    """State of one pass over the folders."""

    def __init__(self, path: Path, after: Prefix) -> None:
        self.path = path
        self.after = after
        self.findings: list[Finding] = []
        self.leaves: list[str] = []
        self.entries: list[Entry] = []
        self.origin = after.origin

    def read(self) -> Chain:
        # Entries are listed last: an append that happens meanwhile then shows up as an entry whose body is
        # still to come, never as a body without its entry.
        lists = {name: folders.listing(self.path, name, self.after.size) for name in reversed(folders.FOLDERS)}
        numbers = lists[folders.ENTRIES].numbers
        self.findings += _stray_files(lists, max(numbers, default=self.after.size - 1))
        if not numbers and not self.after.size:
            self.findings.append(error("missing_entry", 0, "the ledger has no entry at all"))
        for seq in range(self.after.size, max(numbers, default=-1) + 1):
            if seq in numbers:
                self._read_entry(seq)
            else:
                self.findings.append(error("missing_entry", seq, "the entry is missing from the sequence"))
        return Chain(self.path, self.origin or "?", tuple(self.leaves), tuple(self.entries), tuple(self.findings))

    def _read_entry(self, seq: int) -> None:
        previous = self.leaves[-1] if self.leaves else self.after.last
        try:
            data = read_plain(f"{self.path}/{folders.ENTRIES}/{folders.numbered(folders.ENTRIES, seq)}")
            leaf = leaf_hash(data).hex()
            self.leaves.append(leaf)
            header = parse_header(data)
        except FormatError as failure:
            self.findings.append(from_format(failure, seq))
            return
        except OSError as failure:
            self.findings.append(error("unreadable", seq, f"the entry cannot be read ({failure.strerror})"))
            return
        self.origin = self.origin or str(header["origin"])
        body = None
        try:
            body = self._read_body(seq, header)
        except FormatError as failure:
            self.findings.append(from_format(failure, seq))
        except OSError as failure:
            self.findings.append(error("unreadable", seq, f"its body cannot be read ({failure.strerror})"))
        entry = Entry(seq, leaf, header, body)
        self.findings += self._links(entry, previous)
        self.entries.append(entry)

    def _read_body(self, seq: int, header: dict[str, object]) -> dict[str, object] | None:
        commit = str(header["body_commit"])
        body, salt = (self._read_first(folder, seq, commit) for folder in (folders.BODIES, folders.SALTS))
        if body is None and salt is None:
            self.findings.append(note("withheld", seq, "its body is withheld"))
            return None
        if body is None or salt is None:
            missing = "body" if body is None else "salt"
            raise FormatError("half_withheld", f"its {missing} is missing while the other half is here")
        return open_body(header, body, salt)

    def _read_first(self, folder: str, seq: int, commit: str) -> bytes | None:
        """Bytes under the final or the staged name; asks twice, since a rename may fall in between."""
        final = f"{self.path}/{folder}/{folders.numbered(folder, seq)}"  # text: a Path costs more than the reading
        for attempt in range(3):
            try:
                return read_plain(final if attempt != 1 else folders.staged_path(self.path, folder, commit))
            except FileNotFoundError:
                continue
        return None

    def _links(self, entry: Entry, previous: str | None) -> Iterator[Finding]:
        header, seq = entry.header, entry.seq
        if header["seq"] != seq:
            yield error("wrong_seq", seq, f"found the number {header['seq']} inside the file named {seq:08d}")
        if header["prev"] != previous:
            yield error("wrong_prev", seq, "prev is not the hash of the entry before")
        if header["origin"] != self.origin:
            yield error("wrong_origin", seq, f"found origin {header['origin']!r}, expected {self.origin!r}")
        opens = entry.kind in ("genesis", "fork")
        if opens != (seq == 0):
            wanted = "genesis or fork" if seq == 0 else "any kind but genesis and fork"
            yield error("misplaced_kind", seq, f"found {entry.kind}, expected {wanted} at this place")
        if self.entries and entry.time < self.entries[-1].time:
            yield warning("clock_backwards", seq, f"its time {entry.time} is before the entry before it")


def _stray_files(lists: dict[str, folders.Listing], last: int) -> Iterator[Finding]:
    for folder, names in lists.items():
        for name in names.strange:
            yield error("unexpected_file", None, f"found {folder}/{name}, which no entry can have")
        for name in names.temporary:
            yield note("temporary_file", None, f"{folder}/{name} was left by an append that did not finish")
        for seq in sorted(number for number in names.numbers if number > last):
            yield error("missing_entry", seq, f"found a file in {folder} for an entry that is not there")
