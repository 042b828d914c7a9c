"""Manifests of frozen texts: which characters of which member of which pinned source, and their SHA-256."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ridgefill.errors import TextError
from ridgefill.files import write_text
from ridgefill.texts import Source, find_source, load_sources, read_member

SCHEMA_VERSION = 1
ROLES = ("evaluation", "calibration", "heldout")
_TYPES = {
    "id": str,
    "role": str,
    "domain": str,
    "source": str,
    "member": str,
    "offset": int,
    "length": int,
    "sha256": str,
    "licence": str,
}


@dataclass(frozen=True)
class Document:
    """A frozen stretch of text: ``length`` characters from character ``offset`` of a source's member.

    ``sha256`` is of those characters in UTF-8. ``role`` is one of ``ROLES``.
    """

    id: str
    role: str
    domain: str
    source: str
    member: str
    offset: int
    length: int
    sha256: str
    licence: str


@dataclass(frozen=True)
class TextSet:
    """The three files of a set of texts, which lie in one folder: sources, evaluation documents, calibration texts."""

    sources: Path
    documents: Path
    calibration: Path


def text_set(documents: Path) -> TextSet:
    """The set that a manifest of evaluation documents belongs to: its neighbours ``sources.json`` and
    ``calibration.json``. The files are not looked at.
    """
    return TextSet(documents.with_name("sources.json"), documents, documents.with_name("calibration.json"))


def text_hash(text: str) -> str:
    """SHA-256 of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def load(document: Document, cache_dir: Path, sources: Mapping[str, Source] | None = None) -> str:
    """The document's text from the unpacked source; TextError when the frozen hash does not match."""
    known = load_sources() if sources is None else sources
    member = read_member(find_source(document.source, known), cache_dir, document.member)
    text = member[document.offset : document.offset + document.length]
    if len(text) != document.length or text_hash(text) != document.sha256:
        raise TextError(
            f"document {document.id} has {len(text)} characters with SHA-256 {text_hash(text)}, expected "
            f"{document.length} with {document.sha256}; the pinned source {document.source} was changed"
        )
    return text


def load_manifest(path: Path) -> tuple[Document, ...]:
    """The frozen documents in file order. Raises TextError when the file is missing or malformed."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise TextError(f"no manifest of documents at {path}; restore it from version control") from None
    except (ValueError, RecursionError, OSError) as error:
        raise TextError(f"{path} is not valid JSON ({error}); restore it from version control") from None
    if not isinstance(raw, dict) or raw.get("schema_version") != SCHEMA_VERSION:
        raise TextError(f"{path} is not a manifest of schema version {SCHEMA_VERSION}")
    entries = raw.get("documents")
    if not isinstance(entries, list) or not entries:
        raise TextError(f"{path} lists no documents")
    documents = tuple(_document(entry, path) for entry in entries)
    if len({document.id for document in documents}) < len(documents):
        raise TextError(f"{path} gives the same id to two documents; make the ids different")
    return documents


def _document(entry: object, path: Path) -> Document:
    if not isinstance(entry, dict) or set(entry) != set(_TYPES):
        raise TextError(f"a document in {path} must have exactly the fields {sorted(_TYPES)}, found {entry!r:.200}")
    for name, kind in _TYPES.items():
        if type(entry[name]) is not kind:
            raise TextError(f"document {entry['id']!r:.60} in {path}: {name} must be of type {kind.__name__}")
    document = Document(**entry)
    if document.role not in ROLES or document.offset < 0 or document.length < 1:
        raise TextError(
            f"document {document.id} in {path} has role {document.role!r}, offset {document.offset}, length "
            f"{document.length}; expected a role of {', '.join(ROLES)}, offset >= 0 and length >= 1"
        )
    return document


def save_manifest(path: Path, documents: Iterable[Document]) -> None:
    """Write a manifest atomically, one document a line."""
    lines = ",\n  ".join(json.dumps(asdict(document), ensure_ascii=False) for document in documents)
    body = f'{{\n "schema_version": {SCHEMA_VERSION},\n "documents": [\n  {lines}\n ]\n}}\n'
    write_text(path, body)


def select(documents: Sequence[Document], domains: Sequence[str], per_domain: int) -> tuple[Document, ...]:
    """The first ``per_domain`` documents of each domain, domain by domain in the order given."""
    chosen: list[Document] = []
    for domain in domains:
        found = [document for document in documents if document.domain == domain]
        if len(found) < per_domain:
            known = ", ".join(sorted({document.domain for document in documents}))
            raise TextError(
                f"domain {domain!r} has {len(found)} documents, {per_domain} are asked for; "
                f"the domains here are {known}"
            )
        chosen += found[:per_domain]
    return tuple(chosen)
