"""Needles with a key and a value, hidden in noise, in essays, or among other needles (the niah tasks)."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ridgefill.suites.haystack import Haystack, Lines, Noise, hide
from ridgefill.suites.ruler.plans import Draft, Hidden, Limits, Material, Place, Steps, lay_out
from ridgefill.suites.wording import listed, needle, retrieval
from ridgefill.suites.words import Words, distinct_keys, distinct_numbers, distinct_uuids

Kind = Literal["word", "number", "uuid"]
_DRAW: Mapping[str, Callable[[random.Random, Words, int], list[str]]] = MappingProxyType(
    {
        "word": distinct_keys,
        "number": lambda rng, words, count: distinct_numbers(rng, count),
        "uuid": lambda rng, words, count: distinct_uuids(rng, count),
    }
)
_STEPS: Mapping[str, Steps] = MappingProxyType(
    {"essays": Steps(500, 500), "noise": Steps(5, 25), "needles": Steps(5, 25)}
)


@dataclass(frozen=True)
class Retrieval:
    """``keys`` keys with ``values`` values each are hidden, ``queries`` of the keys are asked for.

    A haystack of other needles has keys and values of the same kinds, none of them the hidden ones; its
    lines are haystack, not needles, so they do not decide whether a sample is in the filled region.
    """

    haystack: Literal["noise", "essays", "needles"]
    keys: int = 1
    values: int = 1
    queries: int = 1
    key: Kind = "word"
    value: Kind = "number"

    @property
    def steps(self) -> Steps:
        """500 words of essays, 25 lines (5 at short lengths)."""
        return _STEPS[self.haystack]

    def limits(self, at: Place) -> Limits:
        """Room for every needle on a line of its own."""
        return Limits(self.keys * self.values)

    def draw(self, at: Place, size: int, rng: random.Random) -> Draft:
        """One draw: keys, values, their order, the queried keys, the places."""
        others = size if self.haystack == "needles" else 0
        keys = _DRAW[self.key](rng, at.material.words, self.keys + others)
        values = _DRAW[self.value](rng, at.material.words, self.keys * self.values + others)
        lines = [self._needle(*pair) for pair in zip(keys[self.keys :], values[self.keys * self.values :], strict=True)]
        keys, values = keys[: self.keys], values[: self.keys * self.values]
        pairs = list(zip(keys * self.values, values, strict=True))
        rng.shuffle(pairs)
        queried = rng.sample(keys, self.queries)
        sentences = [self._needle(*pair) for pair in pairs]
        context, spans = hide(self._hay(at.material, lines), size, sentences, rng)
        texts, asked = retrieval(len(queried) * self.values, self.value), listed(queried)
        return lay_out(
            texts.introduction,
            context,
            texts.question.format(keys=asked),
            hidden=[
                Hidden(sentence, key in queried, span)
                for sentence, (key, _), span in zip(sentences, pairs, spans, strict=True)
            ],
            answer=texts.answer.format(keys=asked),
            references=[value for key in queried for found, value in pairs if found == key],
        )

    def _needle(self, key: str, value: str) -> str:
        return needle(key, value, self.value)

    def _hay(self, material: Material, lines: Sequence[str]) -> Haystack:
        if self.haystack == "essays":
            return material.essays
        return Noise() if self.haystack == "noise" else Lines(tuple(lines))
