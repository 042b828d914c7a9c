"""LongBench v2 under every arm: reason over the document, then name a letter without it; both answers are sampled.

All arms draw with the item's own seeds, so two arms that see the same logits say the same. The second prompt holds what
an arm itself reasoned, and that arm fills it too; one no longer than the tail has no filled rows.
"""

from __future__ import annotations

from functools import partial

import torch

from ridgefill.decode import Choose
from ridgefill.evaluation.longbench import LongBenchRun, Reply, Request, Row, end_ids, placed, replies
from ridgefill.evaluation.sampling import sampler
from ridgefill.suites.longbench.files import V2Item
from ridgefill.suites.longbench.v2 import (
    ANSWER_TOKENS,
    REASONING_TOKENS,
    TEMPERATURE,
    V2Templates,
    answer_prompt,
    judge,
    reasoning_prompt,
    seed_for_item,
)


def evaluate_v2(run: LongBenchRun, item: V2Item, templates: V2Templates) -> list[Row]:
    """One item's rows for ``longbench_v2_samples``, one for each arm.

    Raises ``TextError`` for a prompt that leaves no room to answer, and ``NumericsError``.
    """
    first = reasoning_prompt(item, templates, encode=run.encode, decode=run.decode, budget=run.budget)
    with torch.inference_mode():
        seed = seed_for_item(item, "reasoning", run.seed_for)
        reasoned = list(replies(run, _request(run, item, first.text, seed, REASONING_TOKENS), run.given))
        texts = {reply.arm.key: run.decode(reply.ids) for reply in reasoned}
        answered = _answered(run, item, templates, texts)
    shared: Row = {"whole_tokens": first.whole_tokens, "cut": first.cut, "reasoning_seed": seed}
    return [
        {**reply.columns, **shared, **_row(item, texts[reply.arm.key], reply, run, answered.get(reply.arm.key))}
        for reply in reasoned
    ]


def _answered(run: LongBenchRun, item: V2Item, templates: V2Templates, texts: dict[str, str]) -> dict[str, Reply]:
    """The second request of every arm that reasoned anything; arms that reasoned alike share its exact pass."""
    found: dict[str, Reply] = {}
    seed = seed_for_item(item, "answer", run.seed_for)
    for text in dict.fromkeys(texts.values()):
        if text:
            arms = [arm for arm in run.given if texts[arm.key] == text]
            second = answer_prompt(item, text, templates, encode=run.encode, decode=run.decode, budget=run.budget)
            request = _request(run, item, second.text, seed, ANSWER_TOKENS)
            found |= {reply.arm.key: reply for reply in replies(run, request, arms)}
    return found


def _request(run: LongBenchRun, item: V2Item, text: str, seed: int, new_tokens: int) -> Request:
    prompt, turn, question = placed(run, text, item.question)
    rows = run.seed_for(f"rows/longbench_v2/{item.id}")
    ends = end_ids(run.loaded.tokenizer)
    return Request(item.id, prompt, turn, question, rows, new_tokens, ends, choose=partial(_chooser, seed))


def _chooser(seed: int, entries: int) -> Choose:
    return sampler(TEMPERATURE, [seed] * entries)


def _row(item: V2Item, reasoning: str, reply: Reply, run: LongBenchRun, answer: Reply | None) -> Row:
    response = "" if answer is None else run.decode(answer.ids)
    outcome = judge(item, reasoning, response)
    return {
        "item": item.id,
        "domain": item.domain,
        "sub_domain": item.sub_domain,
        "difficulty": item.difficulty,
        "length": item.length,
        "reasoning": reasoning,
        "reasoning_tokens": len(reply.ids),
        "at_cap": len(reply.ids) == REASONING_TOKENS,
        "answer_seed": None if answer is None else seed_for_item(item, "answer", run.seed_for),
        "answer_prompt_tokens": None if answer is None else answer.columns["prompt_tokens"],
        "answer_filled_rows": None if answer is None else answer.columns["filled_rows"],
        "response": response,
        "response_tokens": 0 if answer is None else len(answer.ids),
        "choice": outcome.choice,
        "answer": item.answer,
        "correct": outcome.correct,
        "status": outcome.status,
    }
