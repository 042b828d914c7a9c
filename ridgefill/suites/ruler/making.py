"""Samples that fit a length: one haystack size per task and length, found by bisection on a first draw.

A sample that comes out longer than the budget is drawn again with a smaller haystack, down to a floor.
Every sample has its own seeded generator, so sample ``i`` is the same whatever the number of samples.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ridgefill.errors import TextError
from ridgefill.suites.haystack import Essays
from ridgefill.suites.needles import RulerSample
from ridgefill.suites.questions import QuestionSet
from ridgefill.suites.ruler.plans import Draft, Material, Place
from ridgefill.suites.ruler.tasks import Task, find_task
from ridgefill.suites.words import Words

Tokenize = Callable[[str], Sequence[int | str]]


def generate(
    task: str,
    length: int,
    count: int,
    seed: int,
    *,
    tokenize: Tokenize,
    words: Words,
    essays: str,
    questions: Mapping[str, QuestionSet] | None = None,
    chat_overhead: int = 0,
    new_tokens: int | None = None,
) -> list[RulerSample]:
    """``count`` samples of ``task`` whose prompt and new tokens fit in ``length`` tokens.

    ``essays`` is the haystack text of the essay tasks and ``questions`` the sets of ``qa_1`` and ``qa_2`` by
    task name; tasks that need neither do not look at them. ``tokenize`` gives the tokens of a string without
    special tokens; ``chat_overhead`` is how many tokens the chat template adds; ``new_tokens`` replaces the
    task's own budget for the answer. Raises ConfigError for an unknown task, and TextError when the smallest
    haystack does not fit (naming the least length) or the material is missing or used up.
    """
    found = find_task(task)
    if new_tokens is not None:
        found = replace(found, new_tokens=new_tokens)
    maker = Maker(found, length, seed, tokenize, Material(words, Essays(essays), questions or {}), chat_overhead)
    size = maker.largest_size()
    return [maker.sample(index, size) for index in range(count)]


@dataclass(frozen=True)
class Maker:
    """Samples of one task at one length; the fields are the arguments of ``generate``."""

    task: Task
    length: int
    seed: int
    tokenize: Tokenize
    material: Material = field(repr=False)
    chat_overhead: int = 0

    def sample(self, index: int, size: int) -> RulerSample:
        """Sample ``index``, from a haystack of ``size`` or the next smaller ones that fit."""
        floor = self.task.plan.limits(self._place(index)).floor
        step = self.step(size)
        size = max(floor, size)
        while True:
            drawn = self.draw(index, size)
            needed = self.needed(drawn)
            if needed <= self.length:
                return self._sample(index, drawn)
            if size == floor:
                raise TextError(
                    f"{self.task.name} sample {index} does not fit in {self.length} tokens even with the smallest "
                    f"haystack; use a length of at least {needed} ({self.task.new_tokens} of them are for the answer)"
                )
            size = max(floor, size - step)

    def largest_size(self) -> int:
        """Largest haystack for which a first draw fits (doubling, then bisection); the floor if none does."""
        floor, most = self.task.plan.limits(self._place(0))
        low, high = floor, 2 * floor
        while high <= most and self.needed(self.draw(0, high)) <= self.length:
            low, high = high, 2 * high
        high = min(high, most + 1)
        while high - low > 1:
            middle = (low + high) // 2
            if self.needed(self.draw(0, middle)) <= self.length:
                low = middle
            else:
                high = middle
        return low

    def step(self, size: int) -> int:
        """The task's step; at short lengths a twentieth of the haystack at most, which it would empty else."""
        steps = self.task.plan.steps
        return max(1, min(steps.short, size // 20)) if self._place(0).short else steps.long

    def draw(self, index: int, size: int) -> Draft:
        """Sample ``index`` from a haystack of ``size``, whether it fits or not."""
        rng = random.Random(f"{self.seed}/{self.task.name}/{self.length}/{index}")
        return self.task.plan.draw(self._place(index), size, rng)

    def needed(self, drawn: Draft) -> int:
        """Tokens of a draft with the chat template and the answer."""
        prompt = len(self.tokenize(drawn.question_prompt + drawn.answer_prefix))
        return prompt + self.chat_overhead + self.task.new_tokens

    def _place(self, index: int) -> Place:
        return Place(self.task.name, self.length, index, self.material)

    def _sample(self, index: int, drawn: Draft) -> RulerSample:
        return RulerSample(
            task=self.task.name,
            length=self.length,
            index=index,
            question_prompt=drawn.question_prompt,
            answer_prefix=drawn.answer_prefix,
            references=drawn.references,
            needles=drawn.needles,
            new_tokens=self.task.new_tokens,
            question=drawn.question,
            metric=self.task.metric,
        )
