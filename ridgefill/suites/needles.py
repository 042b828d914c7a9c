"""Retrieval samples, and where their needles lie in the final, tokenised prompt (EVALUATION section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ridgefill.errors import TextError


@dataclass(frozen=True)
class Needle:
    """One hidden sentence, at characters ``char_start`` to ``char_end`` (excluded) of the question prompt."""

    text: str
    queried: bool
    char_start: int
    char_end: int


@dataclass(frozen=True)
class RulerSample:
    """One prompt with its expected answers.

    ``question_prompt`` is the user turn; ``answer_prefix`` follows the chat template, so that the model
    continues it. ``references`` are the values to find; ``new_tokens`` is the generation budget.
    ``question`` is the (start, end) of the question's characters in ``question_prompt``; ``metric`` is how
    the references are scored. ``further`` is what the model is given to go on with after each answer but the last,
    once an answer has as many tokens as its reference; ``new_tokens`` counts it.
    """

    task: str
    length: int
    index: int
    question_prompt: str
    answer_prefix: str
    references: tuple[str, ...]
    needles: tuple[Needle, ...]
    new_tokens: int
    question: tuple[int, int]
    metric: str = "all"
    further: tuple[str, ...] = ()


class TokenSpan(NamedTuple):
    """First and last token index of a needle, both included, in the final prompt."""

    first: int
    last: int
    queried: bool


class FilledRegion(NamedTuple):
    """Whether all needles lie before the tail: all that were inserted, and all that the question is about."""

    inserted: bool
    queried: bool


def question_first(sample: RulerSample) -> RulerSample:
    """The same sample with its question in front of the user turn: question, newline, the rest.

    The white space before the question goes, so that the turn does not end in any (chat templates may
    trim it). Needles and question keep their text at their new characters; the answer prefix stays. A
    question in front already changes nothing. Raises TextError when the question's characters are not
    inside the turn or a needle overlaps them.
    """
    start, end = sample.question
    if not 0 <= start < end <= len(sample.question_prompt):
        raise TextError(
            f"the question of {sample.task} sample {sample.index} is at characters {start} to {end} of a user turn "
            f"of {len(sample.question_prompt)}; give the question's place"
        )
    before, after = sample.question_prompt[:start].rstrip(), sample.question_prompt[end:]
    if not before:
        return sample
    question = sample.question_prompt[start:end]
    front = len(question) + 1

    def moved(needle: Needle) -> Needle:
        if needle.char_end <= len(before):
            shift = front
        elif needle.char_start >= end:
            shift = front + len(before) - end
        else:
            raise TextError(f"the needle {needle.text!r} overlaps the question, which therefore cannot be moved")
        return replace(needle, char_start=needle.char_start + shift, char_end=needle.char_end + shift)

    return replace(
        sample,
        question_prompt=f"{question}\n{before}{after}",
        needles=tuple(moved(needle) for needle in sample.needles),
        question=(0, len(question)),
    )


def locate_needles(sample: RulerSample, prompt_text: str, offsets: Sequence[tuple[int, int]]) -> list[TokenSpan]:
    """Token span of each needle in the final prompt, in the order of ``sample.needles``.

    ``prompt_text`` is the chat-templated prompt with the answer prefix; ``offsets`` is the tokenizer's
    offset mapping of it, one (start, end) pair of characters per token. Special tokens of width zero are
    passed over. Raises TextError when the template altered the user turn or no token covers a needle.
    """
    shift = prompt_text.find(sample.question_prompt)
    if shift < 0:
        raise TextError(
            f"the user turn of {sample.task} sample {sample.index} is not in the final prompt unchanged; "
            "use a chat template that leaves the user's text alone"
        )
    return [_span(needle, shift, offsets) for needle in sample.needles]


def _span(needle: Needle, shift: int, offsets: Sequence[tuple[int, int]]) -> TokenSpan:
    start, end = needle.char_start + shift, needle.char_end + shift
    covering = [i for i, (low, high) in enumerate(offsets) if low < high and low < end and high > start]
    if not covering:
        raise TextError(f"no token covers the needle {needle.text!r}; the offsets belong to another prompt")
    return TokenSpan(covering[0], covering[-1], needle.queried)


def filled_region(spans: Sequence[TokenSpan], prompt_tokens: int, tail: int) -> FilledRegion:
    """Whether needles lie wholly before the last ``tail`` tokens of a prompt of ``prompt_tokens`` tokens.

    ``prompt_tokens`` counts everything, chat suffix and answer prefix included. A sample without needles
    (in either sense) is not in the region.
    """
    boundary = prompt_tokens - tail
    inserted = [span.last < boundary for span in spans]
    queried = [span.last < boundary for span in spans if span.queried]
    return FilledRegion(bool(inserted) and all(inserted), bool(queried) and all(queried))
