"""The append-only store: one immutable file per entry, appended by ``link()`` to the next free number.

An append stages body and salt under the name of their commitment, flushes them, then links the header to
its number. The link either creates the entry or fails because another process took the number, in which
case the header is made again for the next one. A crash before the link leaves temporary files only; a
crash after it leaves a complete entry whose body still has its staged name, which readers accept and the
next append puts in place. No step rewrites or removes an entry.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledger import folders
from ledger.bodies import BODY_CHECKS
from ledger.canonical import canonical
from ledger.chain import read_chain
from ledger.checkpoint import Checkpoint, checkpoint_of
from ledger.entry import GRADED, SALT_BYTES, VERSION, Entry, body_commitment, parse_header
from ledger.errors import BrokenLedger, LedgerError, UsageError, WriteFailed
from ledger.files import read_plain, sync_folder, write_new
from ledger.findings import refuse_errors
from ledger.grades import among_siblings, grade_of, inherited, started_experiments
from ledger.merkle import leaf_hash
from ledger.shapes import origin as check_origin


class Ledger:
    """A ledger in one folder. Make one with ``open``, ``init`` or ``fork``."""

    def __init__(self, path: Path, origin: str) -> None:
        self.path = path
        self.origin = origin

    @classmethod
    def open(cls, path: Path) -> Ledger:
        """Open an existing ledger; NoLedger when there is none, BrokenLedger when it does not verify."""
        chain = read_chain(path)
        refuse_errors(path.name, chain.findings)
        return cls(path, chain.origin)

    @classmethod
    def init(cls, path: Path, origin: str, title: str = "") -> Ledger:
        """Open a new ledger with a ``genesis`` entry; UsageError when one is there."""
        return cls._create(path, origin, "genesis", {"title": title})

    @classmethod
    def fork(cls, path: Path, origin: str, parent: Ledger) -> Ledger:
        """Open a branch whose ``fork`` entry names the checkpoint of ``parent`` it stands on."""
        return cls._create(path, origin, "fork", {"checkpoint": parent.checkpoint().text()})

    @classmethod
    def _create(cls, path: Path, origin: str, kind: str, body: Mapping[str, Any]) -> Ledger:
        check_origin(origin, "origin")
        ledger = cls(path, origin)
        opening = _Append(ledger, kind, body)
        opening.check()  # a first entry that is refused must leave no folder that looks like a ledger
        try:
            for name in folders.FOLDERS:
                (path / name).mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                write_new(path / ".gitattributes", b"* -text\n")
            sync_folder(path)
        except OSError as failure:
            raise WriteFailed(f"cannot create the ledger folder {path} ({failure.strerror})") from None
        if opening.attempt() is None:
            raise UsageError(f"there is a ledger in {path} already; use another branch name")
        return ledger

    def entries(self) -> tuple[Entry, ...]:
        """All entries, verified; BrokenLedger at the first thing wrong."""
        chain = read_chain(self.path)
        refuse_errors(self.path.name, chain.findings)
        return chain.entries

    def checkpoint(self) -> Checkpoint:
        """Size and root as of now."""
        return checkpoint_of(self.origin, [entry.leaf for entry in self.entries()])

    def append(
        self, kind: str, body: Mapping[str, Any], still: Callable[[tuple[Entry, ...]], object] | None = None
    ) -> Entry:
        """Append one entry durably and return it.

        ``body`` holds the fields of its kind without ``origin`` and ``time``, which are added here, as is
        the grade of a registration or amendment. Safe among any number of processes on one file system. ``still``
        is given the entries before the number that is tried and raises when the entry must not follow them: what
        others append between a check and the append is then seen too. Raises FormatError for a body the format does
        not allow, WriteFailed when the system refuses.
        """
        if kind in ("genesis", "fork") or kind not in BODY_CHECKS:
            raise UsageError(f"cannot append an entry of kind {kind!r}")
        appending = _Append(self, kind, body, still)
        while (entry := appending.attempt()) is None:
            continue
        return entry


class _Append:
    """One append: keeps its staged body over several attempts at a number."""

    def __init__(
        self,
        ledger: Ledger,
        kind: str,
        body: Mapping[str, Any],
        still: Callable[[tuple[Entry, ...]], object] | None = None,
    ) -> None:
        self.ledger, self.kind, self.fields, self.still = ledger, kind, body, still
        self.salt = secrets.token_bytes(SALT_BYTES)
        self.staged: bytes | None = None
        self.commit = ""

    def check(self) -> None:
        """Raise FormatError for a body that the format does not allow."""
        canonical(self._body())

    def attempt(self) -> Entry | None:
        """Try the next number once; None when another process took it."""
        temporary = self.ledger.path / folders.ENTRIES / f"{secrets.token_hex(16)}{folders.TEMPORARY}"
        try:
            seq, previous = self._head()
            if self.still is not None:
                # The link below creates entry seq or fails, so what is checked is all that will precede it.
                self.still(self.ledger.entries()[:seq])
            body = self._body()
            self._stage(canonical(body))
            header = canonical(self._header(seq, previous, body))
            parse_header(header)
            write_new(temporary, header)
            try:
                os.link(temporary, folders.entry_path(self.ledger.path, seq))
            except FileExistsError:
                # Over NFS a reply can be lost: the link was made, and asked again the server says it is taken.
                if temporary.stat().st_nlink < 2:
                    if self.kind in ("genesis", "fork"):
                        self._discard()
                    return None
            sync_folder(temporary.parent)
            settle(self.ledger.path, (seq,))
        except LedgerError:
            self._discard()
            raise
        except OSError as failure:
            self._discard()
            raise WriteFailed(
                f"cannot append to {self.ledger.path} ({failure.strerror}); make room or allow writing, then "
                "type `ledger log` to see whether the entry was recorded"
            ) from None
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
        return Entry(seq, leaf_hash(header).hex(), parse_header(header), body)

    def _head(self) -> tuple[int, str | None]:
        """Next free number and the leaf hash before it; settles what a crashed append left."""
        path = self.ledger.path
        numbers = folders.listing(path, folders.ENTRIES).numbers
        if self.kind in ("genesis", "fork"):
            return 0, None
        if len(numbers) != max(numbers, default=-1) + 1 or not numbers:
            raise BrokenLedger(f"entries are missing from {path}; type `ledger verify` and restore them")
        settled = folders.listing(path, folders.BODIES).numbers & folders.listing(path, folders.SALTS).numbers
        settle(path, sorted(numbers - settled))
        data = read_plain(folders.entry_path(path, len(numbers) - 1))
        if parse_header(data)["origin"] != self.ledger.origin:
            raise BrokenLedger(f"{path} is not the ledger {self.ledger.origin!r} that was opened")
        return len(numbers), leaf_hash(data).hex()

    def _body(self) -> dict[str, Any]:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        body = {**self.fields, "origin": self.ledger.origin, "time": now}
        BODY_CHECKS[self.kind](body, "body")
        return body

    def _header(self, seq: int, previous: str | None, body: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "version": VERSION,
            "origin": self.ledger.origin,
            "seq": seq,
            "prev": previous,
            "kind": self.kind,
            "time": body["time"],
            "grade": self._grade(seq, body) if self.kind in GRADED else None,
            "body_commit": self.commit,
        }

    def _grade(self, seq: int, body: Mapping[str, Any]) -> str:
        own = self.ledger.entries()
        older = inherited(own[0], among_siblings(self.ledger.path)) or ()
        return grade_of(body, started_experiments((*older, *own[:seq])))

    def _stage(self, body: bytes) -> None:
        if body == self.staged:
            return
        self._discard()
        path = self.ledger.path
        self.commit, self.staged = body_commitment(self.salt, body), body
        write_new(folders.staged_path(path, folders.BODIES, self.commit), body)
        write_new(folders.staged_path(path, folders.SALTS, self.commit), self.salt.hex().encode("ascii"))
        sync_folder(path / folders.BODIES)
        sync_folder(path / folders.SALTS)

    def _discard(self) -> None:
        """Drop staged files, unless a linked header needs them."""
        path = self.ledger.path
        try:
            if not self.staged or _is_linked(path, self.commit):
                return
        except OSError:
            return  # cannot tell, and a forgotten temporary file is harmless
        for folder in (folders.BODIES, folders.SALTS):
            with contextlib.suppress(OSError):
                folders.staged_path(path, folder, self.commit).unlink(missing_ok=True)


def _is_linked(path: Path, commit: str) -> bool:
    for seq in sorted(folders.listing(path, folders.ENTRIES).numbers, reverse=True)[:64]:
        if commit.encode("ascii") in read_plain(folders.entry_path(path, seq)):
            return True
    return False


def settle(path: Path, numbers: tuple[int, ...] | list[int]) -> None:
    """Give staged bodies and salts of linked entries their number; harmless to run twice or at once."""
    for seq in numbers:
        commit = parse_header(read_plain(folders.entry_path(path, seq)))["body_commit"]
        places = ((folders.BODIES, folders.body_path), (folders.SALTS, folders.salt_path))
        for folder, final in places:
            with contextlib.suppress(FileNotFoundError):
                os.replace(folders.staged_path(path, folder, commit), final(path, seq))
            sync_folder(path / folder)
