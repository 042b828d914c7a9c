"""LongBench under every arm: one exact pass for a prompt, every arm filled from it and decoded from its own cache.

v1 is here (greedy answers, scored per item); v2 asks twice and samples, see :mod:`ridgefill.evaluation.longbench_v2`.
The order of a prompt is its template's, so arms that move the question have nothing to move and are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.arms import Arm
from ridgefill.cost import exact_macs
from ridgefill.decode import Choose, most_likely
from ridgefill.errors import TextError
from ridgefill.evaluation.contexts import prompt_context
from ridgefill.evaluation.continuing import Reached, answers
from ridgefill.evaluation.prompts import Prompt, chat_text, encoded, plain_text
from ridgefill.evaluation.ruler import DECODE_BYTES
from ridgefill.evaluation.runs import ArmRun, Setup, kept_layers, run_arms
from ridgefill.evaluation.turns import turn_text
from ridgefill.passes import run_exact
from ridgefill.rows import ranking_window
from ridgefill.selectors.tokens import Span, special_ids
from ridgefill.suites.longbench.datasets import find_dataset
from ridgefill.suites.longbench.files import LongBenchItem
from ridgefill.suites.longbench.prompts import Templates, prompt_for
from ridgefill.suites.longbench.scores import Segment, score

Row = dict[str, Any]
Placed = tuple[Prompt, Span | None, Span | None]


@dataclass(frozen=True)
class LongBenchRun(Setup):
    """What an evaluation of LongBench needs.

    budget: tokens that a prompt is cut to, before its template. context: tokens of the model. seed_for: the run seed of
    a label, 63 bits. labels: experiment, model and source of the prompts. segment: finds the words of a Chinese text.
    """

    budget: int
    context: int
    seed_for: Callable[[str], int]
    labels: Mapping[str, str]
    segment: Segment | None = None

    def encode(self, text: str) -> list[int]:
        """Token ids, with the special tokens that the tokenizer adds by itself: what budgets count."""
        return list(self.loaded.tokenizer(text)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        return str(self.loaded.tokenizer.decode(list(ids), skip_special_tokens=True))


@dataclass(frozen=True)
class Request:
    """One prompt and how it is answered.

    turn: characters of the user's turn, None without a chat template. question: characters from the question to the
    end, None when nothing is asked. seed: of random rows. never_first: tokens that no answer begins with. choose: a
    fresh rule for so many entries.
    """

    item: str
    prompt: Prompt
    turn: Span | None
    question: Span | None
    seed: int
    new_tokens: int
    stop_ids: frozenset[int]
    never_first: frozenset[int] = frozenset()
    choose: Callable[[int], Choose] = lambda _: most_likely


@dataclass(frozen=True)
class Reply:
    """What one arm answered. columns: of its prefill, as both schemas have them. ids: without the stop token."""

    arm: Arm
    columns: Row
    ids: list[int]


def end_ids(tokenizer: Any) -> frozenset[int]:
    """Tokens that end an answer: the end of the text, and the mark with which the chat template ends a turn."""
    ends = {int(tokenizer.eos_token_id)}
    try:
        after = tokenizer(turn_text(tokenizer, "?"), add_special_tokens=False)["input_ids"]
    except TextError:
        # A template that repeats no answer shows no mark after one.
        return frozenset(ends)
    return frozenset(ends | (set(after[:1]) & special_ids(tokenizer).all))


def placed(
    run: LongBenchRun, text: str, question: str, *, chat: bool = True
) -> tuple[Prompt, Span | None, Span | None]:
    """A user's turn as the model reads it: the prompt, the turn's characters, and those from the question on.

    The question counts from its last occurrence, and as none where the cut took it. Raises ``TextError`` for a chat
    template that changes the turn.
    """
    tokenizer = run.loaded.tokenizer
    if not (chat and tokenizer.chat_template):
        prompt, turn = encoded(tokenizer, plain_text(tokenizer, text)), None
    else:
        prompt, inner = encoded(tokenizer, chat_text(tokenizer, text)), text.strip()
        start = prompt.text.find(inner)
        if start < 0:
            raise TextError("the chat template does not repeat the user's turn as it is; use one that does")
        turn = (start, start + len(inner))
    asked = prompt.text.rfind(question.strip()) if question.strip() else -1
    return prompt, turn, None if asked < 0 else (asked, len(prompt.text))


def replies(run: LongBenchRun, request: Request, arms: Sequence[Arm]) -> Iterator[Reply]:
    """The answers of ``arms`` in order. Raises ``TextError`` for a prompt without room to answer, ``NumericsError``."""
    tokens = len(request.prompt.ids)
    if tokens + request.new_tokens > run.context:
        raise TextError(
            f"{request.item} has {tokens} tokens in its template and {request.new_tokens} to answer; expected at most "
            f"the model's context, {run.context}. Lower the suite's budget, {run.budget}"
        )
    context = prompt_context(
        arms,
        run.loaded.tokenizer,
        request.prompt.ids,
        text=request.prompt.text,
        offsets=request.prompt.offsets,
        seed=request.seed,
        turn=request.turn,
        question=request.question,
        frequencies=run.fitted.frequencies,
    )
    window = ranking_window(arms, tokens, run.window)
    exact = run_exact(run.loaded.adapter, torch.tensor([request.prompt.ids]), keep=kept_layers(run), window=window)
    for batch in _batches(run, run_arms(run, exact, context, arms), tokens + request.new_tokens):
        written = answers(
            [Reached(one.adapter, one.cache, one.hidden[:, -1:], tokens) for one in batch],
            request.new_tokens,
            request.stop_ids,
            lambda *_: False,
            choose=request.choose(len(batch)),
            never_first=request.never_first,
        )
        for one, ids in zip(batch, written, strict=True):
            yield Reply(one.arm, _columns(run, request, one), ids)


def _batches(run: LongBenchRun, runs: Iterable[ArmRun], rows: int) -> Iterator[list[ArmRun]]:
    """The arms' runs in order, in groups whose caches of ``rows`` rows fit ``DECODE_BYTES`` while they are decoded."""
    size = torch.finfo(run.loaded.adapter.dtype).bits // 8
    fit = max(1, DECODE_BYTES // (2 * rows * run.geometry.layers * run.geometry.kv * size))
    batch: list[ArmRun] = []
    for one in runs:
        batch.append(one)
        if len(batch) == fit:
            yield batch
            batch = []
    if batch:
        yield batch


def _columns(run: LongBenchRun, request: Request, done: ArmRun) -> Row:
    return {
        **run.labels,
        "prompt_sha256": request.prompt.sha256,
        "prompt_tokens": len(request.prompt.ids),
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": len(done.selected),
        "macs": done.macs.total,
        "exact_macs": exact_macs(run.geometry, len(request.prompt.ids)),
    }


def evaluate_v1(run: LongBenchRun, item: LongBenchItem, templates: Templates) -> list[Row]:
    """One item's rows for ``longbench_v1_samples``, one for each arm; greedy. Errors as ``replies``."""
    dataset = find_dataset(item.dataset)
    made = prompt_for(item, templates, run.budget, encode=run.encode, decode=run.decode)
    prompt, turn, question = placed(run, made.prompt.text, item.input, chat=made.chat)
    stops, line = end_ids(run.loaded.tokenizer), _line_break(run.loaded.tokenizer)
    stops |= line if dataset.stop_at_newline else frozenset()
    request = Request(
        item.name,
        prompt,
        turn,
        question,
        run.seed_for(f"rows/longbench_v1/{item.name}"),
        made.new_tokens,
        stops,
        stops if dataset.stop_at_newline else frozenset(),
    )
    with torch.inference_mode():
        return [_v1_row(run, item, reply, made.prompt.whole_tokens, turn) for reply in replies(run, request, run.given)]


def _line_break(tokenizer: Any) -> frozenset[int]:
    return frozenset(tokenizer("\n", add_special_tokens=False)["input_ids"][-1:])


def _v1_row(run: LongBenchRun, item: LongBenchItem, reply: Reply, whole_tokens: int, turn: Span | None) -> Row:
    prediction = run.decode(reply.ids)
    return {
        **reply.columns,
        "dataset": item.dataset,
        "sample": item.index,
        "item": item.id,
        "metric": find_dataset(item.dataset).metric,
        "whole_tokens": whole_tokens,
        "cut": whole_tokens > run.budget,
        "chat": turn is not None,
        "prediction": prediction,
        "references": list(item.answers),
        "score": score(item.dataset, prediction, item.answers, classes=item.classes, segment=run.segment),
        "status": "ok",
        "generated_tokens": len(reply.ids),
    }
