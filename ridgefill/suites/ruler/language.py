"""Retrieval in the synthetic language of the hybrids trained here, whose vocabulary knows none of RULER's words.

Prompts are episodes that training never draws. Where several keys are asked for, the model answers one question after
the other: it writes each answer, and the next question is given to it, since nothing in the text says which comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import accumulate
from types import MappingProxyType

from ridgefill.errors import ConfigError
from ridgefill.hybrid.language import Episode, Task, four_asked, four_keys, held_out, one_key, spaced
from ridgefill.hybrid.words import START
from ridgefill.suites.needles import Needle, RulerSample

LANGUAGE_TASKS: Mapping[str, Callable[[int], Task]] = MappingProxyType(
    {"one_key": one_key, "four_keys": four_keys, "four_asked": four_asked}
)
"""Tasks by name; an answer is right when all its digits are there."""
TWO_QUESTIONS = "four_keys"
"""The task whose samples a second question is asked of."""


def language_samples(task: str, length: int, count: int, seed: int, *, room: int = 0) -> list[RulerSample]:
    """``count`` samples of ``task`` whose prompt and answers have at most ``length`` tokens, less ``room`` of them.

    Raises ConfigError for a task that is not known, or a length that its needles and questions do not fit in.
    """
    if task not in LANGUAGE_TASKS:
        raise ConfigError(f"no retrieval task {task!r}; the language's are {', '.join(LANGUAGE_TASKS)}")
    shape = LANGUAGE_TASKS[task](length - room)
    episodes = [held_out(shape, f"{seed}/{task}/{length}", index) for index in range(count)]
    return [_sample(task, length, index, one) for index, one in enumerate(episodes)]


def _sample(task: str, length: int, index: int, made: Episode) -> RulerSample:
    text = spaced(made.pieces[: made.question])
    # A blank in front, as every word of the language has one, also the first behind the mark that opens a text.
    places = [0, *accumulate(len(piece) if piece != START else 0 for piece in made.pieces)]
    asked, prefix = asking(made.asked[0])
    keys = [f" the code of {key} is " for key in made.asked]
    needles = [(spaced(made.pieces[start:end]), places[start], places[end]) for start, end in made.needles]
    return RulerSample(
        task=task,
        length=length,
        index=index,
        question_prompt=text + asked,
        answer_prefix=prefix,
        references=made.references,
        needles=tuple(Needle(said, said.startswith(tuple(keys)), start, end) for said, start, end in needles),
        new_tokens=made.answers[-1][1] - made.answers[0][0] + 1,
        question=(len(text), len(text) + len(asked)),
        further=made.further,
    )


def asking(key: str) -> tuple[str, str]:
    """What asks for a key's code at the end of a text: the question, and what the answer begins with."""
    return " question:", f" the code of {key} is"
