"""Words that samples are made of: adjective-noun keys, seven-digit numbers, uuids, letters, single words."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ridgefill.errors import TextError
from ridgefill.texts import Source, read_member

SOURCE = "wonderwords"
"""The text source that carries the word lists."""
_ADJECTIVES = "wonderwords/assets/adjectivelist.txt"
_NOUNS = "wonderwords/assets/nounlist.txt"


@dataclass(frozen=True)
class Words:
    """The two word lists that keys are made of, in file order."""

    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]

    @cached_property
    def single(self) -> tuple[str, ...]:
        """Every different word of both lists, sorted."""
        return tuple(sorted({*self.adjectives, *self.nouns}))


def load_words(source: Source, cache_dir: Path) -> Words:
    """Word lists of the unpacked ``wonderwords`` source (912 adjectives, 6,782 nouns at 3.0.1)."""
    lists = [read_member(source, cache_dir, member).splitlines() for member in (_ADJECTIVES, _NOUNS)]
    adjectives, nouns = (tuple(word.strip() for word in lines if word.strip()) for lines in lists)
    return Words(adjectives, nouns)


def distinct_keys(rng: random.Random, words: Words, count: int) -> list[str]:
    """``count`` different adjective-noun keys."""
    return _distinct(count, lambda: f"{rng.choice(words.adjectives)}-{rng.choice(words.nouns)}")


def distinct_numbers(rng: random.Random, count: int) -> list[str]:
    """``count`` different seven-digit numbers, as text."""
    return _distinct(count, lambda: str(rng.randint(1_000_000, 9_999_999)))


def distinct_uuids(rng: random.Random, count: int) -> list[str]:
    """``count`` different random uuids (version 4), as text."""
    return _distinct(count, lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)))


def distinct_letters(rng: random.Random, count: int, letters: int, alphabet: str) -> list[str]:
    """``count`` different random strings of ``letters`` letters."""
    return _distinct(count, lambda: "".join(rng.choices(alphabet, k=letters)))


def distinct_words(rng: random.Random, words: Words, count: int) -> list[str]:
    """``count`` different words: single ones, or adjective-noun pairs when there are not enough of those."""
    if count <= len(words.single):
        return rng.sample(words.single, count)
    return distinct_keys(rng, words, count)


def _distinct(count: int, draw: Callable[[], str]) -> list[str]:
    found: dict[str, None] = {}
    for _ in range(100 * count):
        if len(found) == count:
            break
        found[draw()] = None
    if len(found) < count:
        raise TextError(f"only {len(found)} different keys could be drawn, {count} are needed; use longer lists")
    return list(found)
