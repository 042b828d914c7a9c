"""The documents of the agreement suite: a seeded draw, balanced over prompt lengths (EVALUATION section 1)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence

from ridgefill.errors import TextError
from ridgefill.suites.manifest import Document

CHARS_PER_TOKEN = 5.5


def surely_tokens(document: Document) -> int:
    """Tokens the document has unless a tokenizer needs fewer than one for 5.5 characters; few texts go above 5.3."""
    return int(document.length / CHARS_PER_TOKEN)


def balanced(
    documents: Sequence[Document],
    count: int,
    lengths: Sequence[int],
    seed: int,
    tokens: Callable[[Document], int] = surely_tokens,
) -> tuple[tuple[Document, int], ...]:
    """``count`` different documents, each with the length it is read at, ordered by ``lengths``.

    ``lengths`` are tokens, of the prompt and what follows it; ``tokens`` says how many a document has. Lengths
    get the same number of documents, and where that does not come out even the ones named first get one
    more. At each length the domains take turns as far as their documents go; which document of a domain
    is drawn depends on the seed, the length and the documents' hashes, not on their order. Raises TextError
    when a length appears twice or too few documents are long enough.
    """
    if count < 1 or not lengths or len(set(lengths)) < len(lengths):
        raise TextError(
            f"{count} documents over the lengths {list(lengths)}: expected 1 or more, and different lengths"
        )
    share, more = divmod(count, len(lengths))
    wanted = {length: share + (place < more) for place, length in enumerate(lengths)}
    left = list(documents)
    chosen: dict[int, list[Document]] = {}
    # What is long enough for a length is long enough for all shorter ones, so the longest choose first.
    for length in sorted(lengths, reverse=True):
        drawn = _draw([one for one in left if tokens(one) >= length], wanted[length], length, seed)
        chosen[length] = drawn
        left = [one for one in left if one not in drawn]
    return tuple((document, length) for length in lengths for document in chosen[length])


def _draw(able: Sequence[Document], count: int, length: int, seed: int) -> list[Document]:
    """``count`` of the documents, the domains taking turns."""
    if len(able) < count:
        raise TextError(
            f"{len(able)} documents are left of at least {length} tokens, {count} are asked for; ask for fewer, for "
            "shorter ones, or freeze more documents"
        )
    order = sorted(able, key=lambda one: hashlib.sha256(f"{seed}/{length}/{one.id}/{one.sha256}".encode()).digest())
    turns: Counter[str] = Counter()
    ranked = []
    for document in order:
        ranked.append((turns[document.domain], document))
        turns[document.domain] += 1
    return [document for _, document in sorted(ranked, key=lambda pair: pair[0])][:count]
