"""Haystacks: sentences of essays or noise lines, with needles put between them."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ridgefill.errors import TextError
from ridgefill.suites.wording import NOISE

DEPTHS = tuple(round(100 * step / 39) for step in range(40))
_SENTENCE_END = re.compile(r"(?<=[.!?])(?<!\b[A-Z]\.)(?<!Mr\.)(?<!Dr\.)(?<!e\.g\.)(?<!i\.e\.)\s+")


@dataclass(frozen=True)
class Essays:
    """Haystack of the words of ``text``; its size is a number of words, text repeated when it is short."""

    text: str
    separator: str = field(default=" ", init=False)

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The text's words; TextError when there is none."""
        words = tuple(self.text.split())
        if not words:
            raise TextError("the haystack essays hold no word; check the range of essays in the configuration")
        return words

    def units(self, size: int) -> list[str]:
        """The first ``size`` words, as sentences."""
        repeats = -(-size // len(self.words))
        return _SENTENCE_END.split(" ".join((self.words * repeats)[:size]))

    def places(self, rng: random.Random, units: int, needles: int) -> list[int]:
        """Sentence boundaries at different depths drawn from ``DEPTHS``, in reading order."""
        return sorted(units * depth // 100 for depth in rng.sample(DEPTHS, needles))


@dataclass(frozen=True)
class Noise:
    """Haystack of ``size`` lines of the same noise."""

    separator: str = field(default="\n", init=False)

    def units(self, size: int) -> list[str]:
        """``size`` equal lines."""
        return [NOISE] * size

    def places(self, rng: random.Random, units: int, needles: int) -> list[int]:
        """Different random lines, in reading order."""
        return sorted(rng.sample(range(units), needles))


@dataclass(frozen=True)
class Lines:
    """Haystack of given lines, the first ``size`` of them."""

    texts: tuple[str, ...]
    separator: str = field(default="\n", init=False)

    def units(self, size: int) -> list[str]:
        """The first ``size`` lines."""
        return list(self.texts[:size])

    def places(self, rng: random.Random, units: int, needles: int) -> list[int]:
        """Different random lines, in reading order."""
        return sorted(rng.sample(range(units), needles))


Haystack = Essays | Noise | Lines


def hide(
    haystack: Haystack, size: int, needles: Sequence[str], rng: random.Random
) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Context with the needles in it, and the (start, end) characters of each needle in that context."""
    units = haystack.units(size)
    places = haystack.places(rng, len(units), len(needles))
    pieces: list[str] = []
    indexes: list[int] = []
    previous = 0
    for place, needle in zip(places, needles, strict=True):
        pieces += units[previous:place]
        indexes.append(len(pieces))
        pieces.append(needle)
        previous = place
    pieces += units[previous:]
    starts = [0]
    for piece in pieces:
        starts.append(starts[-1] + len(piece) + len(haystack.separator))
    spans = tuple((starts[i], starts[i] + len(pieces[i])) for i in indexes)
    return haystack.separator.join(pieces), spans
