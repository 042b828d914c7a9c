"""Retrieval samples whose needles all lie before the longest tail, and documents that are long enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

from ridgefill.capture import cut, pieces
from ridgefill.errors import TextError
from ridgefill.evaluation.prompts import chat_overhead, opening, ruler_prompt
from ridgefill.suites.haystack import Essays
from ridgefill.suites.needles import RulerSample, filled_region, locate_needles
from ridgefill.suites.ruler.making import Maker
from ridgefill.suites.ruler.plans import Material as Drawn
from ridgefill.suites.ruler.tasks import find_task
from ridgefill.tuning.material import Stage, Text
from ridgefill.tuning.settings import NEW_TOKENS

TASKS = ("niah_single_1", "niah_multikey_1", "niah_multivalue", "niah_multiquery")
"""RULER's needle tasks whose answers are numbers."""
MOST_DRAWS = 200
"""Draws in a row that may miss the filled region before a tail is called too long."""


def retrieval_samples(tokenizer: Any, stage: Stage, wanted: int, tokens: int, tail: int) -> list[RulerSample]:
    """``wanted`` samples of at most ``tokens`` prompt tokens, the tasks in turn, all of the filled region.

    A sample with a needle in the last ``tail`` tokens is passed over, before any model has seen it. Raises
    ``TextError`` when nearly all have one.
    """
    streams = [_stream(tokenizer, stage, task, tokens, tail) for task in TASKS]
    turns = (next(streams[number % len(TASKS)]) for number in count())
    return list(islice(turns, wanted))


def _stream(tokenizer: Any, stage: Stage, task: str, tokens: int, tail: int) -> Iterator[RulerSample]:
    essays = Essays("\n".join(one.text for one in stage.essays))
    maker = Maker(
        replace(find_task(task), new_tokens=NEW_TOKENS),
        tokens + NEW_TOKENS,
        stage.seed,
        lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
        Drawn(stage.words, essays),
        chat_overhead(tokenizer),
    )
    size, missed = maker.largest_size(), 0
    for index in count():
        sample = maker.sample(index, size)
        if _in_region(tokenizer, sample, tail):
            missed = 0
            yield sample
        elif (missed := missed + 1) >= MOST_DRAWS:
            raise TextError(
                f"{missed} samples of {task} in a row have a needle in the last {tail} of {tokens} tokens; give a "
                "longer --length or shorter --tails"
            )


def _in_region(tokenizer: Any, sample: RulerSample, tail: int) -> bool:
    prompt = ruler_prompt(tokenizer, sample)
    spans = locate_needles(sample, prompt.text, prompt.offsets)
    return filled_region(spans, len(prompt.ids), tail).inserted


def long_documents(tokenizer: Any, stage: Stage, wanted: int, tokens: int) -> list[Text]:
    """The stage's first ``wanted`` documents of at least ``tokens`` tokens, fewer when there are not as many.

    Raises ``TextError`` when there is none.
    """
    mark = len(opening(tokenizer))
    found: list[Text] = []
    longest = 0
    for one in stage.documents:
        length = mark + len(tokenizer(one.text, add_special_tokens=False)["input_ids"])
        longest = max(longest, length)
        found += [one] * (length >= tokens)
        if len(found) == wanted:
            break
    if not found:
        raise TextError(
            f"the longest of {len(stage.documents)} {stage.name} documents has {longest:,} tokens, and {tokens:,} are "
            "needed for the prompt and the scored stretch; give a shorter --length, or longer texts"
        )
    return found


def token_pieces(tokenizer: Any, texts: Sequence[Text], chunk: int, tokens: int) -> list[list[int]]:
    """Pieces of ``chunk`` tokens dealt over the texts, each after the model's opening mark; ``tokens``, or all."""
    mark = opening(tokenizer)
    ids = [(one.name, list(tokenizer(one.text, add_special_tokens=False)["input_ids"])) for one in texts]
    usable = sum(len(mark) + len(piece) for _, one in ids for piece in cut(one, chunk - len(mark)))
    return list(pieces(ids, chunk, min(tokens, usable), mark))
