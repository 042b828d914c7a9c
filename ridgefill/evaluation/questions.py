"""Questions that arms may not see, looked for in every prompt of a suite before any arm runs.

Rows blind to the question are so only while it lies in the tail. How long a tail that takes is known once a tokenizer
has read the prompts, so a job asks here first, rather than stop at the prompt where the question is longer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.evaluation.longbench import LongBenchRun, placed
from ridgefill.evaluation.prompts import ruler_prompt
from ridgefill.evaluation.ruler import item_name, question_span
from ridgefill.rows import tail_rows
from ridgefill.selectors.tokens import positions_of
from ridgefill.suites.longbench.files import LongBenchItem, V2Item
from ridgefill.suites.longbench.prompts import Templates, prompt_for
from ridgefill.suites.longbench.v2 import REASONING_TOKENS, V2Templates, answer_prompt, reasoning_prompt
from ridgefill.suites.ruler import RulerSample


@dataclass(frozen=True)
class Asked:
    """One prompt of ``tokens`` tokens; ``first``: where its question begins, ``tokens`` when nothing is asked."""

    item: str
    tokens: int
    first: int


def require_hidden(arms: Collection[Arm], prompts: Iterable[Asked]) -> None:
    """Raise ``ConfigError`` when a question begins before the tail of an arm that may not see it.

    ``prompts`` are made only when there is such an arm. All are looked at, so the sentence says which tail would do.
    """
    blind = [arm for arm in arms if "question" in arm.needs]
    if not blind:
        return
    seen: dict[str, list[Asked]] = {}
    for prompt in prompts:
        for arm in blind:
            if any(_sees(one, prompt) for one in arm.chain):
                seen.setdefault(arm.key, []).append(prompt)
    if not seen:
        return
    found = max((each for prompts in seen.values() for each in prompts), key=lambda each: each.tokens - each.first)
    many = max(len(prompts) for prompts in seen.values())
    raise ConfigError(
        f"{', '.join(seen)} may not see the question, and at {many} prompts it begins before the tail, the farthest "
        f"{found.tokens - found.first} tokens from the end of {found.item}; expected a tail of as many, or no such "
        "arm in this suite"
    )


def ruler_questions(tokenizer: Any, samples: Iterable[RulerSample]) -> Iterator[Asked]:
    """The prompts of RULER samples in their own order; also those of a first turn."""
    for sample in samples:
        prompt = ruler_prompt(tokenizer, sample)
        first, _ = positions_of(prompt.offsets, *question_span(sample, prompt))
        yield Asked(item_name(sample), len(prompt.ids), first)


def v1_questions(run: LongBenchRun, items: Sequence[LongBenchItem], templates: Templates) -> Iterator[Asked]:
    """The prompts of LongBench v1."""
    for item in items:
        made = prompt_for(item, templates, run.budget, encode=run.encode, decode=run.decode)
        yield _asked(run, item.name, made.prompt.text, item.input, chat=made.chat)


def v2_questions(run: LongBenchRun, items: Sequence[V2Item], templates: V2Templates) -> Iterator[Asked]:
    """Both prompts of LongBench v2, the second as if an arm reasoned for as long as it may."""
    longest = " a" * REASONING_TOKENS
    for item in items:
        first = reasoning_prompt(item, templates, encode=run.encode, decode=run.decode, budget=run.budget)
        second = answer_prompt(item, longest, templates, encode=run.encode, decode=run.decode, budget=run.budget)
        yield _asked(run, item.id, first.text, item.question)
        yield _asked(run, f"the second prompt of {item.id}", second.text, item.question)


def _asked(run: LongBenchRun, item: str, text: str, question: str, *, chat: bool = True) -> Asked:
    prompt, _, span = placed(run, text, question, chat=chat)
    tokens = len(prompt.ids)
    return Asked(item, tokens, tokens if span is None else positions_of(prompt.offsets, *span)[0])


def _sees(arm: Arm, prompt: Asked) -> bool:
    """Whether an arm's selector is blind by its rule and not on this prompt."""
    blind = arm.rows is not None and "question" in arm.rows.needs
    return blind and prompt.first < prompt.tokens - tail_rows(arm, prompt.tokens)
