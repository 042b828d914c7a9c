"""Words to be counted: common words of a list (cwe) and frequent words of a coded text (fwe).

Neither task has needles, since every occurrence counts and there is no one place to find: by the definition
of the filled region no such sample is ever in it.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

from ridgefill.errors import TextError
from ridgefill.suites.ruler.plans import LARGEST_SIZE, Draft, Limits, Place, Steps, lay_out
from ridgefill.suites.wording import CODED, COMMON, NOISE_MARK
from ridgefill.suites.words import distinct_letters, distinct_words

_ZETA_2 = math.pi**2 / 6
"""Zeta of the exponent 2.0: the shares ``1 / rank^2`` over it sum to one."""
_ASKED = 3
_SPARE, _WORDS_PER_TOKEN = 50, 50


@dataclass(frozen=True)
class Repeats:
    """How often common and other words of a list occur, and the same for its example of ``example_words`` words."""

    common: int
    others: int
    example_words: int
    example_common: int
    example_others: int


_LONG = Repeats(30, 3, 40, 10, 3)
_SHORT = Repeats(6, 1, 20, 3, 1)
"""At short lengths, as 300 common words alone would not fit."""


@dataclass(frozen=True)
class CommonWords:
    """A numbered list in which ``common`` words occur more often than the others; a solved one precedes it.

    The size counts different words, the common ones included.
    """

    common: int

    @property
    def steps(self) -> Steps:
        """10 words."""
        return Steps(10, 10)

    def limits(self, at: Place) -> Limits:
        """As many other words as common ones."""
        return Limits(2 * self.common)

    def draw(self, at: Place, size: int, rng: random.Random) -> Draft:
        """One draw: all words (example and sample share none), then both orders."""
        repeats = _SHORT if at.short else _LONG
        words = distinct_words(rng, at.material.words, repeats.example_words + size)
        shown, asked = words[: repeats.example_words], words[repeats.example_words :]
        first = self._part(shown, repeats.example_common, repeats.example_others, rng)
        example = f"{first.question_prompt}{first.answer_prefix} {numbered(first.references)}\n\n"
        return self._part(asked, repeats.common, repeats.others, rng, example)

    def _part(self, words: Sequence[str], common: int, others: int, rng: random.Random, example: str = "") -> Draft:
        often, seldom = list(words[: self.common]), list(words[self.common :])
        entries = often * common + seldom * others
        rng.shuffle(entries)
        return lay_out(
            COMMON.introduction,
            numbered(entries),
            COMMON.question.format(count=self.common),
            answer=COMMON.answer.format(count=self.common),
            references=often,
            example=example,
        )


def numbered(words: Sequence[str]) -> str:
    """``1. a 2. b``: the words on one line, each with its number."""
    return " ".join(f"{place}. {word}" for place, word in enumerate(words, start=1))


@dataclass(frozen=True)
class CodedWords:
    """Made-up words of ``letters`` letters whose frequencies fall with the square of their rank.

    Rank 1 is a mark to be ignored; ranks 2 to 4 are asked for. The size ``n`` is the scale of the
    frequencies ``floor(n / (rank^2 zeta(2)))``; one at which rank 5 would be as frequent as rank 4 counts as
    the next smaller one, so that the answer is always unique.
    """

    letters: int

    @property
    def steps(self) -> Steps:
        """128, a 32nd of 4,096: RULER's step grows with the length, a finer one fills the length better."""
        return Steps(128, 128)

    def limits(self, at: Place) -> Limits:
        """The smallest scale at which rank 4 occurs. TextError when the vocabulary has no fourth word."""
        if vocabulary_size(at.length) <= _ASKED:
            least = _SPARE + (_ASKED + 1) * _WORDS_PER_TOKEN
            raise TextError(
                f"{at.task} at {at.length} tokens would have {vocabulary_size(at.length)} code words, expected at "
                f"least {_ASKED + 1}; use a length of at least {least}"
            )
        floor = next(size for size in range(1, LARGEST_SIZE) if _frequency(size, _ASKED + 1) > 0)
        return Limits(floor)

    def draw(self, at: Place, size: int, rng: random.Random) -> Draft:
        """One draw: the vocabulary in rank order, then the order of the text."""
        words = distinct_letters(rng, vocabulary_size(at.length), self.letters, string.ascii_lowercase)
        words[0] = NOISE_MARK
        text = [word for word, count in zip(words, frequencies(size, len(words)), strict=True) for _ in range(count)]
        rng.shuffle(text)
        return lay_out(
            CODED.introduction,
            " ".join(text),
            CODED.question,
            answer=CODED.answer,
            references=words[1 : _ASKED + 1],
        )


def vocabulary_size(length: int) -> int:
    """Code words of a text of ``length`` tokens, the mark included: ``(length - 50) // 50``."""
    return (length - _SPARE) // _WORDS_PER_TOKEN


def frequencies(size: int, words: int) -> list[int]:
    """How often each of ``words`` ranks occurs at the scale ``size``, most frequent first."""
    while size > 0 and _frequency(size, _ASKED + 1) == _frequency(size, _ASKED + 2):
        size -= 1
    return [_frequency(size, rank) for rank in range(1, words + 1)]


def _frequency(size: int, rank: int) -> int:
    return int(size / (rank**2 * _ZETA_2))
