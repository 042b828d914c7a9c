"""What a task is made of: the material it draws from, how large its haystack may be, and one draw."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from ridgefill.suites.haystack import Essays
from ridgefill.suites.needles import Needle
from ridgefill.suites.questions import QuestionSet
from ridgefill.suites.words import Words

SHORT = 4096
"""Lengths below this many tokens are short: RULER takes smaller steps, and smaller counts in word lists."""
LARGEST_SIZE = 1_000_000


class Steps(NamedTuple):
    """By how much a haystack shrinks when a sample comes out too long, at short lengths and at others."""

    short: int
    long: int


class Limits(NamedTuple):
    """Smallest and largest size of a haystack, both included."""

    floor: int
    most: int = LARGEST_SIZE - 1


@dataclass(frozen=True)
class Material:
    """What samples are drawn from; ``questions`` are sets by task name, for the tasks that ask them."""

    words: Words
    essays: Essays
    questions: Mapping[str, QuestionSet] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """One sample to be drawn: task, length in tokens, number, and the material."""

    task: str
    length: int
    index: int
    material: Material

    @property
    def short(self) -> bool:
        """Whether the length is below 4,096 tokens."""
        return self.length < SHORT


@dataclass(frozen=True)
class Draft:
    """One draw of a sample, before anybody knows whether it fits. Fields as in ``RulerSample``."""

    question_prompt: str
    answer_prefix: str
    references: tuple[str, ...]
    needles: tuple[Needle, ...]
    question: tuple[int, int]


class Plan(Protocol):
    """How samples of one task come about; ``size`` counts what the task's haystack is made of."""

    @property
    def steps(self) -> Steps:
        """Steps of a haystack that has to shrink."""

    def limits(self, at: Place) -> Limits:
        """Sizes that this sample may have. Raises TextError when the length or material allows none."""

    def draw(self, at: Place, size: int, rng: random.Random) -> Draft:
        """The sample from a haystack of ``size``; the same generator state gives the same draft."""


@dataclass(frozen=True)
class Hidden:
    """A text of the context that has to be found, at its characters in the context."""

    text: str
    queried: bool
    span: tuple[int, int]


def lay_out(
    introduction: str,
    context: str,
    question: str,
    *,
    hidden: Sequence[Hidden] = (),
    answer: str,
    references: Sequence[str],
    example: str = "",
) -> Draft:
    """Example, introduction, context and question on lines of their own, with the characters of each needle."""
    before = f"{example}{introduction}\n"
    shift = len(before)
    start = shift + len(context) + 1
    return Draft(
        question_prompt=f"{before}{context}\n{question}",
        answer_prefix=answer,
        references=tuple(references),
        needles=tuple(Needle(one.text, one.queried, shift + one.span[0], shift + one.span[1]) for one in hidden),
        question=(start, start + len(question)),
    )
