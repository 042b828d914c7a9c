"""Loss on long documents for every arm: the prompt is filled, the scored stretch after it runs in full."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.cost import exact_macs
from ridgefill.errors import TextError
from ridgefill.evaluation.prompts import opening
from ridgefill.evaluation.runs import ArmRun, Setup, kept_layers, log_likelihood, run_arms, timing_rows
from ridgefill.passes import run_exact
from ridgefill.suites.masks import key_mask, novel_mask

Row = dict[str, Any]


@dataclass(frozen=True)
class DocumentRun(Setup):
    """What an evaluation of documents needs. tail, prompt_tokens, scored_tokens: counts of tokens."""

    prompt_tokens: int
    scored_tokens: int
    labels: Mapping[str, str]


@dataclass(frozen=True)
class Scored:
    """One document's results. rows: for ``documents``; tokens: for ``document_tokens``; timings: for ``timings``."""

    rows: list[Row]
    tokens: list[Row]
    timings: list[Row]


def document_ids(run: DocumentRun, name: str, text: str) -> list[int]:
    """The document's first prompt and scored tokens, after the tokenizer's own opening mark if it has one.

    Raises ``TextError`` when the document is empty or too short.
    """
    wanted = run.prompt_tokens + run.scored_tokens
    tokenizer = run.loaded.tokenizer
    ids = [*opening(tokenizer), *tokenizer(text, add_special_tokens=False)["input_ids"]]
    if len(ids) < wanted:
        raise TextError(
            f"document {name} has {len(ids)} tokens; {wanted} are needed ({run.prompt_tokens} of prompt, of which the "
            f"last {run.tail} are the exact tail, and {run.scored_tokens} scored). Choose a longer document"
        )
    return ids[:wanted]


def evaluate_document(run: DocumentRun, name: str, domain: str, text: str, seed: int) -> Scored:
    """Score one document under every arm. Raises ``TextError`` and ``NumericsError``.

    Key tokens: the exact loss rises by more than 2 nats when the context is cut to the tail; found once.
    """
    ids = document_ids(run, name, text)
    tokens, total = run.prompt_tokens, len(ids)
    targets = torch.tensor(ids[tokens:])
    adapter = run.loaded.adapter
    with torch.inference_mode():
        exact = run_exact(
            adapter,
            torch.tensor([ids]),
            keep=kept_layers(run.arms),
            window=(tokens - run.window, tokens),
        )
        cut = run_exact(adapter, torch.tensor([[*opening(run.loaded.tokenizer), *ids[tokens - run.tail :]]]))
        full_loss = log_likelihood(adapter, exact.hidden[:, tokens - 1 : -1], targets)
        cut_loss = log_likelihood(adapter, cut.hidden[:, -len(targets) - 1 : -1], targets)
        done: list[ArmRun] = []
        losses: list[list[float]] = []
        for arm_run in run_arms(adapter, exact, run.arms, run.maps, run.geometry, seed=seed, tokens=tokens):
            losses.append(log_likelihood(adapter, arm_run.hidden[:, :-1], targets).tolist())
            done.append(arm_run)
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
    rows = [_row(run, name, domain, one) for one in done]
    return Scored(rows, token_rows, timing_rows("documents", name, done, exact.clock[-1]))


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
        "exact_rows": done.exact_rows,
        "macs": done.macs,
        "exact_macs": exact_macs(run.geometry, run.prompt_tokens),
        "status": "ok",
    }
