"""Two turns: a second question asked of every arm's cache, which was filled, its rows chosen, for the first one.

Each arm answers the first question itself. Its own answer and the second user turn then run the full model over its
cache, as decoding does, and the second answer is decoded from there (paper Appendix D).
"""

from __future__ import annotations

from typing import Any

import torch

from ridgefill.cost import exact_macs
from ridgefill.errors import TextError
from ridgefill.evaluation.continuing import Reached, answers, extend
from ridgefill.evaluation.prompts import ends
from ridgefill.evaluation.ruler import Prefilled, RulerRun, prefill
from ridgefill.evaluation.runs import ArmRun
from ridgefill.selectors.tokens import special_ids
from ridgefill.suite_settings import SECOND_QUESTION
from ridgefill.suites.scorer import score
from ridgefill.suites.turns import TurnSample

Row = dict[str, Any]
_ANSWERED = "[[what was answered]]"


def turn_text(tokenizer: Any, question: str) -> str:
    """All that the chat template writes between one answer and the next when ``question`` is asked after the first.

    For a model without a template, the question on a line of its own. Raises ``TextError`` for a template that does
    not repeat what was answered.
    """
    if not tokenizer.chat_template:
        return f"\n{question}"
    turns = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": _ANSWERED},
        {"role": "user", "content": question},
    ]
    text: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    _, found, after = text.rpartition(_ANSWERED)
    if not found:
        raise TextError(
            "the chat template leaves out what was answered before, so a second turn cannot follow it; use a template "
            "that repeats the conversation"
        )
    return after


def turn_ids(tokenizer: Any, turn: TurnSample) -> list[int]:
    """Token ids of the second turn, from the end of the first answer to the start of the second, its prefix included.

    Raises ``TextError`` when they are more than the suite leaves room for.
    """
    text = turn_text(tokenizer, turn.question) + turn.answer_prefix
    ids = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    if len(ids) > SECOND_QUESTION:
        raise TextError(
            f"the second turn of {turn.first.task} sample {turn.first.index} has {len(ids)} tokens; expected at most "
            f"{SECOND_QUESTION}. Use a shorter chat template"
        )
    return ids


def evaluate_turns(run: RulerRun, turn: TurnSample) -> list[Row]:
    """One sample's rows for ``turn_samples``, one for each arm. Raises ``TextError`` and ``NumericsError``.

    An answer ends at the tokenizer's end of text, or at the mark with which the template ends a turn.
    """
    tokenizer, sample = run.loaded.tokenizer, turn.first
    asked = turn_ids(tokenizer, turn)
    stop_ids = ends(tokenizer) | {asked[0]} & special_ids(tokenizer).all
    with torch.inference_mode():
        one = prefill(run, sample)
        filled = [Reached(done.adapter, done.cache, done.hidden[:, -1:], one.tokens(done)) for done in one.done]
        # What was answered first is part of the second prompt, so nothing cuts it short.
        first = answers(filled, sample.new_tokens, stop_ids, lambda *_: False)
        told = [extend(reached, [*said, *asked])[0] for reached, said in zip(filled, first, strict=True)]
        second = answers(told, sample.new_tokens, stop_ids, lambda _, ids: _score(run, turn, ids) == 1.0)
    return [
        _row(run, turn, one, done, said, reached.tokens, then)
        for done, said, reached, then in zip(one.done, first, told, second, strict=True)
    ]


def _text(run: RulerRun, ids: list[int]) -> str:
    return str(run.loaded.tokenizer.decode(ids, skip_special_tokens=True))


def _score(run: RulerRun, turn: TurnSample, ids: list[int]) -> float:
    return score(_text(run, ids), turn.references, turn.first.metric)


def _row(
    run: RulerRun, turn: TurnSample, one: Prefilled, done: ArmRun, said: list[int], tokens: int, then: list[int]
) -> Row:
    sample, prompt = turn.first, one.prompts[done.arm.order]
    return {
        **run.labels,
        "task": sample.task,
        "length": sample.length,
        "sample": sample.index,
        "prompt_sha256": prompt.sha256,
        "prompt_tokens": len(prompt.ids),
        "second_prompt_tokens": tokens,
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": len(done.selected),
        "in_filled_region": one.region.inserted,
        "in_filled_region_queried": one.region.queried,
        "first_prediction": _text(run, said),
        "first_references": list(sample.references),
        "first_score": score(_text(run, said), sample.references, sample.metric),
        "first_tokens": len(said),
        "second_prediction": _text(run, then),
        "second_references": list(turn.references),
        "second_score": _score(run, turn, then),
        "second_tokens": len(then),
        "status": "ok",
        "macs": done.macs.total,
        "exact_macs": exact_macs(run.geometry, len(prompt.ids)),
    }
