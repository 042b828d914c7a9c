"""Retrieval samples in the style of RULER (EVALUATION section 1): same parameters, own wording and words.

One haystack size is found per task and length by binary search on a first draw; a sample that comes out
longer than the budget is drawn again with a smaller haystack. Every sample has its own seeded generator,
so sample ``i`` is the same whatever the number of samples asked for.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.haystack import Essays, Haystack, Noise, hide
from ridgefill.suites.needles import (
    FilledRegion,
    Needle,
    RulerSample,
    TokenSpan,
    filled_region,
    locate_needles,
)
from ridgefill.suites.wording import listed, needle, wording
from ridgefill.suites.words import Words, distinct_keys, distinct_numbers

__all__ = [
    "TASKS",
    "FilledRegion",
    "Needle",
    "RulerSample",
    "Task",
    "TokenSpan",
    "Words",
    "filled_region",
    "generate",
    "locate_needles",
]

Tokenize = Callable[[str], Sequence[int | str]]
LARGEST_SIZE = 1_000_000


@dataclass(frozen=True)
class Task:
    """How many keys are hidden, how many values each has, and how many keys the question asks for."""

    name: str
    noise: bool
    keys: int
    values: int
    queries: int
    new_tokens: int = 128
    metric: str = "all"


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("niah_single_1", noise=True, keys=1, values=1, queries=1),
            Task("niah_multikey_1", noise=False, keys=4, values=1, queries=1),
            Task("niah_multivalue", noise=False, keys=1, values=4, queries=1),
            Task("niah_multiquery", noise=False, keys=4, values=1, queries=4),
        )
    }
)


def find_task(name: str) -> Task:
    """The task called ``name``; ConfigError names the known ones."""
    if name not in TASKS:
        raise ConfigError(f"no retrieval task {name!r}; the known tasks are {', '.join(TASKS)}")
    return TASKS[name]


def generate(
    task: str,
    length: int,
    count: int,
    seed: int,
    *,
    tokenize: Tokenize,
    words: Words,
    essays: str,
    chat_overhead: int = 0,
    new_tokens: int | None = None,
) -> list[RulerSample]:
    """``count`` samples of ``task`` whose prompt and new tokens fit in ``length`` tokens.

    ``essays`` is the haystack text (not used by noise tasks); ``tokenize`` gives the tokens of a string
    without special tokens; ``chat_overhead`` is how many tokens the chat template adds; ``new_tokens``
    replaces the task's own budget for the answer. Raises ConfigError for an unknown task and TextError
    when the needles alone do not fit.
    """
    found = find_task(task)
    if new_tokens is not None:
        found = replace(found, new_tokens=new_tokens)
    haystack = Noise() if found.noise else Essays(essays)
    maker = _Maker(found, length, seed, tokenize, words, haystack, chat_overhead)
    size = maker.largest_size()
    return [maker.sample(index, size) for index in range(count)]


@dataclass(frozen=True)
class _Maker:
    task: Task
    length: int
    seed: int
    tokenize: Tokenize
    words: Words
    haystack: Haystack
    chat_overhead: int

    @property
    def floor(self) -> int:
        """Smallest haystack: room for every needle on a line of its own."""
        return self.task.keys * self.task.values

    def sample(self, index: int, size: int) -> RulerSample:
        """Sample ``index``, from a haystack of ``size`` or the next smaller ones that fit."""
        step = self._step(size)
        while True:
            drawn = self._draw(index, size)
            if self._fits(drawn):
                return drawn
            if size == self.floor:
                raise TextError(
                    f"{self.task.name} does not fit in {self.length} tokens even with the smallest haystack; "
                    f"{self.task.new_tokens} of them are for the answer: use a greater length"
                )
            size = max(self.floor, size - step)

    def largest_size(self) -> int:
        """Largest haystack for which a first draw fits (doubling, then bisection)."""
        low, high = self.floor, 2 * self.floor
        while high < LARGEST_SIZE and self._fits(self._draw(0, high)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self._fits(self._draw(0, middle)):
                low = middle
            else:
                high = middle
        return low

    def _step(self, size: int) -> int:
        """Fixed steps at long lengths; a twentieth of short haystacks, which a fixed step would empty."""
        if self.length < 4096:
            return max(1, min(self.haystack.step, size // 20))
        return self.haystack.step

    def _fits(self, sample: RulerSample) -> bool:
        used = len(self.tokenize(sample.question_prompt + sample.answer_prefix))
        return used + self.chat_overhead + self.task.new_tokens <= self.length

    def _draw(self, index: int, size: int) -> RulerSample:
        rng = random.Random(f"{self.seed}/{self.task.name}/{self.length}/{index}")
        pairs, queried = self._pairs(rng)
        sentences = [needle(key, value) for key, value in pairs]
        context, spans = hide(self.haystack, size, sentences, rng)
        texts = wording(len(queried) * self.task.values)
        keys = listed(queried)
        shift = texts.prompt.index("{context}")
        return RulerSample(
            task=self.task.name,
            length=self.length,
            index=index,
            question_prompt=texts.prompt.format(context=context, keys=keys),
            answer_prefix=texts.answer.format(keys=keys),
            references=tuple(value for key in queried for found, value in pairs if found == key),
            needles=tuple(
                Needle(sentence, key in queried, shift + start, shift + end)
                for sentence, (key, _), (start, end) in zip(sentences, pairs, spans, strict=True)
            ),
            new_tokens=self.task.new_tokens,
        )

    def _pairs(self, rng: random.Random) -> tuple[list[tuple[str, str]], list[str]]:
        """Shuffled (key, value) pairs to hide, and the keys of the question."""
        keys = distinct_keys(rng, self.words, self.task.keys)
        numbers = distinct_numbers(rng, self.task.keys * self.task.values)
        pairs = [(key, number) for key, number in zip(keys * self.task.values, numbers, strict=True)]
        rng.shuffle(pairs)
        return pairs, rng.sample(keys, self.task.queries)
