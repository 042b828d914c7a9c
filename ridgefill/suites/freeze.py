"""Choosing and freezing documents: which files become evaluation, held-out and calibration text.

The choice is fixed before any model runs on the texts and depends only on names and hashes: within a
domain, files are taken in the order of the SHA-256 of their names. A file that shares a run of 50 words
with one already accepted, or with a text that is taken (the retrieval haystack, calibration texts frozen
before), is passed over, so the overlap gate holds by construction. So is a near-duplicate of an accepted file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from pathlib import Path

from ridgefill.errors import TextError
from ridgefill.suites.duplicates import NEAR, shared_share, shingles
from ridgefill.suites.manifest import Document, text_hash
from ridgefill.suites.overlap import RunIndex
from ridgefill.texts import NotTextError, Source, member_names, read_member


@dataclass(frozen=True)
class Stretch:
    """``count`` evaluation documents of exactly ``chars`` characters."""

    count: int
    chars: int


@dataclass(frozen=True)
class Quota:
    """How much of each domain is frozen; sizes are in characters.

    ``evaluation`` lists the evaluation documents by length; a file goes to the longest it can fill that is
    not complete yet. Held-out and calibration documents have between ``shortest`` and ``longest`` and go on
    until ``heldout_chars`` and ``calibration_chars`` are reached.
    """

    evaluation: tuple[Stretch, ...] = (Stretch(10, 12_000),)
    heldout_chars: int = 24_000
    calibration_chars: int = 110_000
    shortest: int = 3_000
    longest: int = 16_000

    @property
    def evaluation_chars(self) -> int:
        """Characters of all evaluation documents of a domain."""
        return sum(stretch.count * stretch.chars for stretch in self.evaluation)


@dataclass(frozen=True)
class _File:
    source: Source
    member: str
    text: str

    def document(self, role: str, length: int) -> Document:
        domain = self.source.domain or ""
        return Document(
            id="/".join((domain, self.source.name, *self.member.split("/")[-2:])),
            role=role,
            domain=domain,
            source=self.source.name,
            member=self.member,
            offset=0,
            length=length,
            sha256=text_hash(self.text[:length]),
            licence=self.source.licence,
        )


@dataclass
class _Accepted:
    """What has been accepted so far, asked before more is."""

    index: RunIndex = field(default_factory=RunIndex)
    shingles: list[frozenset[bytes]] = field(default_factory=list)

    def admit(self, text_id: str, text: str) -> bool:
        """Take the text in, unless it shares a run with an earlier one or is a near-duplicate of it."""
        if self.index.findings(text_id, text):
            return False
        found = shingles(text)
        if any(shared_share(found, other) >= NEAR for other in self.shingles):
            return False
        self.index.add(text_id, text)
        self.shingles.append(found)
        return True


def freeze(
    sources: Mapping[str, Source],
    cache_dir: Path,
    quota: Quota,
    taken: Mapping[tuple[str, str], str],
) -> tuple[list[Document], list[Document]]:
    """Evaluation documents, and held-out followed by calibration documents mixed over the domains.

    ``taken`` has texts by (source name, member) that are spoken for, such as the retrieval haystack; those
    files are never used. Raises TextError when a domain cannot fill its quota.
    """
    accepted = _Accepted()
    for (source, member), text in taken.items():
        accepted.index.add(f"{source}/{member}", text)
    by_domain: dict[str, dict[str, list[Document]]] = {}
    for domain in sorted({source.domain for source in sources.values() if source.domain}):
        inside = [source for source in sources.values() if source.domain == domain]
        files = [file for file in _files(inside, cache_dir) if (file.source.name, file.member) not in taken]
        by_domain[domain] = _allot(domain, files, quota, accepted)
    evaluation = list(chain.from_iterable(roles["evaluation"] for roles in by_domain.values()))
    other = [
        document
        for role in ("heldout", "calibration")
        for document in _mixed(roles[role] for roles in by_domain.values())
    ]
    _check_ids(evaluation + other)
    return evaluation, other


def _files(sources: Iterable[Source], cache_dir: Path) -> list[_File]:
    files = []
    for source in sources:
        for member in member_names(source, cache_dir):
            try:
                files.append(_File(source, member, read_member(source, cache_dir, member)))
            except NotTextError:
                continue
    return sorted(files, key=lambda file: hashlib.sha256(f"{file.source.name}/{file.member}".encode()).digest())


def _allot(domain: str, files: list[_File], quota: Quota, accepted: _Accepted) -> dict[str, list[Document]]:
    roles: dict[str, list[Document]] = {"evaluation": [], "heldout": [], "calibration": []}
    for file in files:
        role, length = _role(file, roles, quota)
        if role:
            document = file.document(role, length)
            if accepted.admit(document.id, file.text[:length]):
                roles[role].append(document)
    wanted = {
        "evaluation": quota.evaluation_chars,
        "heldout": quota.heldout_chars,
        "calibration": quota.calibration_chars,
    }
    for role, chars in wanted.items():
        if _chars(roles[role]) < chars:
            raise TextError(
                f"domain {domain} has only {_chars(roles[role])} characters of {role} text, expected "
                f"{chars}; add a source or lower the quota"
            )
    return roles


def _role(file: _File, roles: Mapping[str, list[Document]], quota: Quota) -> tuple[str, int]:
    """The role a file is a candidate for, and the length it would have; no role when it is not needed."""
    if not _is_english(file.text) or len(file.text) < quota.shortest:
        return "", 0
    have = Counter(document.length for document in roles["evaluation"])
    open_lengths = [
        stretch.chars
        for stretch in quota.evaluation
        if have[stretch.chars] < stretch.count and stretch.chars <= len(file.text)
    ]
    if open_lengths:
        return "evaluation", max(open_lengths)
    length = min(len(file.text), quota.longest)
    if _chars(roles["heldout"]) < quota.heldout_chars:
        return "heldout", length
    return ("calibration" if _chars(roles["calibration"]) < quota.calibration_chars else ""), length


def _chars(documents: Iterable[Document]) -> int:
    return sum(document.length for document in documents)


def _is_english(text: str) -> bool:
    """At most one letter in 200 outside ASCII: passes English and code, not German, French or Japanese."""
    letters = [char for char in text if char.isalpha()]
    return 200 * sum(not char.isascii() for char in letters) <= len(letters)


def _mixed(domains: Iterable[list[Document]]) -> Iterator[Document]:
    """One document of each domain in turn, so that any beginning of the list is mixed."""
    for turn in zip_longest(*domains):
        yield from (document for document in turn if document is not None)


def _check_ids(documents: list[Document]) -> None:
    seen: set[str] = set()
    for document in documents:
        if document.id in seen:
            raise TextError(f"two chosen files would both be called {document.id}; narrow the member patterns")
        seen.add(document.id)
