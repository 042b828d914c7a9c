"""Near-duplicates: two documents that share many short runs of words, though none long enough for the overlap gate."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from ridgefill.suites.overlap import words_of

SHINGLE = 8
NEAR = 0.2


@dataclass(frozen=True)
class Pair:
    """Two texts and the share (0 to 1) of the shorter one's runs of ``SHINGLE`` words that the other has too."""

    first: str
    second: str
    share: float

    def as_json(self) -> dict[str, str | float]:
        """The pair for a report."""
        return asdict(self)


def shingles(text: str, size: int = SHINGLE) -> frozenset[bytes]:
    """Digests of the different runs of ``size`` words of a text; empty for a shorter text."""
    words = words_of(text)
    return frozenset(
        hashlib.blake2b(" ".join(words[start : start + size]).encode(), digest_size=8).digest()
        for start in range(len(words) - size + 1)
    )


def shared_share(first: frozenset[bytes], second: frozenset[bytes]) -> float:
    """Share of the smaller set that the other has too; 0 where one is empty."""
    smaller = min(len(first), len(second))
    return len(first & second) / smaller if smaller else 0.0


def near_duplicates(texts: Iterable[tuple[str, str]], near: float = NEAR) -> list[Pair]:
    """Pairs among (id, text) that share at least ``near`` of the shorter one's runs, in the order given."""
    made = [(text_id, shingles(text)) for text_id, text in texts]
    pairs = [
        Pair(first, second, shared_share(one, other))
        for place, (first, one) in enumerate(made)
        for second, other in made[place + 1 :]
    ]
    return [pair for pair in pairs if pair.share >= near]
