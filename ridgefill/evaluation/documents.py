"""Loss on long documents for every arm: the prompt is filled, the scored stretch after it runs in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.cost import exact_macs
from ridgefill.errors import TextError
from ridgefill.evaluation.contexts import prompt_context
from ridgefill.evaluation.prompts import opening
from ridgefill.evaluation.records import arm_rows, measured_rows
from ridgefill.evaluation.runs import ArmRun, Setup, kept_layers, log_likelihood, run_arms, timing_rows
from ridgefill.passes import run_exact
from ridgefill.rows import ranking_window
from ridgefill.selectors.tokens import Span
from ridgefill.suites.masks import key_mask, novel_mask
from ridgefill.suites.stretch import scored_stretch

Row = dict[str, Any]


@dataclass(frozen=True)
class DocumentRun(Setup):
    """What an evaluation of documents needs. tail, prompt_tokens, scored_tokens: counts of tokens."""

    prompt_tokens: int
    scored_tokens: int
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Scored:
    """One document's results. rows: for ``documents``; tokens: for ``document_tokens``; timings: for ``timings``; arms:
    for ``arm_runs``; measured: for ``measured``."""

    rows: list[Row]
    tokens: list[Row]
    timings: list[Row]
    arms: list[Row]
    measured: list[Row]


def document_ids(run: DocumentRun, name: str, text: str) -> tuple[list[int], list[Span]]:
    """The document's first prompt and scored tokens, after the tokenizer's own opening mark if it has one, and each
    token's characters in the text.

    Raises ``TextError`` when the document is empty or too short.
    """
    wanted = run.prompt_tokens + run.scored_tokens
    tokenizer = run.loaded.tokenizer
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    mark = opening(tokenizer)
    ids = [*mark, *encoded["input_ids"]]
    offsets = [*((0, 0) for _ in mark), *(tuple(pair) for pair in encoded["offset_mapping"])]
    if len(ids) < wanted:
        raise TextError(
            f"document {name} has {len(ids)} tokens; {wanted} are needed ({run.prompt_tokens} of prompt, of which the "
            f"last {run.tail} are the exact tail, and {run.scored_tokens} scored). Choose a longer document"
        )
    return ids[:wanted], offsets[:wanted]


def evaluate_document(run: DocumentRun, name: str, domain: str, text: str, seed: int) -> Scored:
    """Score one document under every arm. Raises ``TextError`` and ``NumericsError``.

    Key tokens: the exact loss rises by more than 2 nats when the context is cut to the tail; found once.
    """
    ids, offsets = document_ids(run, name, text)
    tokens, total = run.prompt_tokens, len(ids)
    targets = torch.tensor(ids[tokens:])
    adapter = run.loaded.adapter
    # A document asks nothing, so an arm that moves the question has nothing to move.
    arms = run.given
    context = prompt_context(
        arms, run.loaded.tokenizer, ids[:tokens], text=text, offsets=offsets[:tokens], seed=seed,
        frequencies=run.fitted.frequencies,
    )  # fmt: skip
    with torch.inference_mode():
        exact = run_exact(
            adapter,
            torch.tensor([ids]),
            keep=kept_layers(run),
            window=ranking_window(arms, tokens, run.window),
        )
        cut = run_exact(adapter, torch.tensor([[*opening(run.loaded.tokenizer), *ids[tokens - run.tail :]]]))
        full_loss = log_likelihood(adapter, exact.hidden[:, tokens - 1 : -1], targets)
        cut_loss = log_likelihood(adapter, cut.hidden[:, -len(targets) - 1 : -1], targets)
        done: list[ArmRun] = []
        losses: list[list[float]] = []
        for arm_run in run_arms(run, exact, context, arms):
            losses.append(log_likelihood(arm_run.adapter, arm_run.hidden[:, :-1], targets).tolist())
            done.append(arm_run)
    scored_stretch(total, tokens - run.tail, run.tail, run.scored_tokens)
    novel = novel_mask(ids)[tokens:total]
    key = key_mask(full_loss.numpy(), cut_loss.numpy())
    token_rows = [
        {
            "document": name,
            "domain": domain,
            "arm": one.arm.name,
            "split": one.arm.split,
            "position": tokens + place,
            "token": ids[tokens + place],
            "novel": bool(novel[place]),
            "key": bool(key[place]),
            "nll": loss[place],
            "status": "ok",
        }
        for one, loss in zip(done, losses, strict=True)
        for place in range(len(targets))
    ]
    return Scored(
        [_row(run, name, domain, one) for one in done],
        token_rows,
        timing_rows("documents", name, done, exact.clock[-1]),
        arm_rows("documents", name, seed, done, exact_macs(run.geometry, tokens)),
        measured_rows("documents", name, done),
    )


def _row(run: DocumentRun, name: str, domain: str, done: ArmRun) -> Row:
    return {
        **{key: run.labels[key] for key in ("experiment", "model")},
        "document": name,
        "domain": domain,
        "prompt_tokens": run.prompt_tokens,
        "scored_tokens": run.scored_tokens,
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": len(done.selected),
        "macs": done.macs.total,
        "exact_macs": exact_macs(run.geometry, run.prompt_tokens),
        "status": "ok",
    }
