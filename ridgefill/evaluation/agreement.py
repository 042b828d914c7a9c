"""How closely each arm follows the exact arm after a document's prompt: top-1 agreement and KL, token by token.

``greedy``: along the exact arm's own greedy continuation (paper Table A.1), fed to every arm one token at a time.
``text``: along the tokens that really follow the prompt (paper section 4.7), run at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ridgefill.cost import exact_macs
from ridgefill.evaluation.contexts import prompt_context
from ridgefill.evaluation.continuing import Reached, extend, step_by_step
from ridgefill.evaluation.documents import DocumentRun, document_ids
from ridgefill.evaluation.ruler import DECODE_BYTES
from ridgefill.evaluation.runs import ArmRun, kept_layers, run_arms
from ridgefill.passes import run_exact
from ridgefill.rows import ranking_window
from ridgefill.suites.masks import copyable_mask

Row = dict[str, Any]
Variant = Literal["greedy", "text"]
ROWS_AT_ONCE = 64
"""Rows of logits that are compared at once, in fp64."""


@dataclass(frozen=True)
class Agreed:
    """One document's results. rows: for ``agreement``; tokens: for ``agreement_tokens``."""

    rows: list[Row]
    tokens: list[Row]


@dataclass(frozen=True)
class Said:
    """One continuation and what the exact arm says along it. logits: fp32 ``[R, vocabulary]``, row ``i`` predicts token
    ``i``. copyable: whether the token ends a run that occurred before."""

    tokens: Sequence[int]
    logits: Tensor
    copyable: Sequence[bool]


@dataclass(frozen=True)
class Followed:
    """Whether an arm's most likely tokens are the exact arm's, and KL(exact || arm) in nats, fp32 ``[R]`` each."""

    top1: Tensor
    kl: Tensor


def divergence(exact: Tensor, other: Tensor) -> Tensor:
    """KL(exact || other) in nats, fp64 ``[...]``, of logits fp32 ``[..., vocabulary]``.

    A token that exact rules out adds nothing, and rounding does not take the sum below zero. Not finite where the other
    rules out what exact does not.
    """
    log_p, log_q = exact.double().log_softmax(-1), other.double().log_softmax(-1)
    terms = torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0)
    return terms.sum(-1).clamp(min=0.0)


def evaluate_agreement(run: DocumentRun, name: str, domain: str, text: str, seed: int) -> Agreed:
    """Follow the exact arm along both continuations of one document, ``run.scored_tokens`` each, under every arm.

    Raises ``TextError`` for a document that is too short, and ``NumericsError``.
    """
    ids, offsets = document_ids(run, name, text)
    tokens, adapter = run.prompt_tokens, run.loaded.adapter
    # A document asks nothing, so an arm that moves the question has nothing to move.
    arms = run.given
    context = prompt_context(
        arms, run.loaded.tokenizer, ids[:tokens], text=text, offsets=offsets[:tokens], seed=seed,
        frequencies=run.fitted.frequencies,
    )  # fmt: skip
    made = Agreed([], [])
    with torch.inference_mode():
        exact = run_exact(
            adapter,
            torch.tensor([ids[:tokens]]),
            keep=kept_layers(run),
            window=ranking_window(arms, tokens, run.window),
        )
        said = _said(Reached(adapter, exact.cache, exact.hidden[:, -1:], tokens), ids)
        for group in _groups(run, run_arms(run, exact, context, arms)):
            for done, found in zip(group, _followed(group, said, tokens), strict=True):
                made.rows.append(_row(run, name, domain, seed, done))
                for variant, followed in found.items():
                    made.tokens.extend(_token_rows(run, name, domain, done, variant, said[variant], followed))
    return made


def _said(exact: Reached, ids: Sequence[int]) -> dict[Variant, Said]:
    """The exact arm along its own greedy tokens, as many as there are real ones, and along those."""
    real = list(ids[exact.tokens :])
    steps = list(step_by_step([exact], len(real), lambda _, logits: int(logits[0].argmax())))
    greedy = torch.cat(steps)
    chosen = greedy.argmax(-1).tolist()
    prompt = list(ids[: exact.tokens])
    return {
        "greedy": Said(chosen, greedy, copyable_mask([*prompt, *chosen])[exact.tokens :].tolist()),
        "text": Said(real, _logits_along(exact, real), copyable_mask(ids)[exact.tokens :].tolist()),
    }


def _logits_along(reached: Reached, tokens: Sequence[int]) -> Tensor:
    """What predicts each of ``tokens`` when they follow: fp32 ``[R, vocabulary]``."""
    return torch.cat(list(_logits_in_parts(reached, tokens)))


def _logits_in_parts(reached: Reached, tokens: Sequence[int]) -> Iterator[Tensor]:
    hidden = reached.hidden
    if len(tokens) > 1:
        hidden = torch.cat([hidden, extend(reached, tokens[:-1])[1]], dim=1)
    for part in torch.split(hidden, ROWS_AT_ONCE, dim=1):
        yield reached.adapter.logits(part)[0].float()


def _groups(run: DocumentRun, runs: Iterable[ArmRun]) -> Iterator[list[ArmRun]]:
    """The arms' runs in order, in groups of one adapter whose caches fit ``DECODE_BYTES`` as one batch.

    The exact arm is a group of its own.
    """
    size = torch.finfo(run.loaded.adapter.dtype).bits // 8
    rows = (run.prompt_tokens + run.scored_tokens) * run.geometry.layers
    fit = max(1, DECODE_BYTES // (2 * rows * run.geometry.kv * size))
    group: list[ArmRun] = []
    for one in runs:
        alike = group and one.adapter is group[0].adapter and None not in (one.arm.split, group[0].arm.split)
        if group and (not alike or len(group) >= fit):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _followed(group: Sequence[ArmRun], said: Mapping[Variant, Said], tokens: int) -> list[dict[Variant, Followed]]:
    """How each arm of a group follows; the group is one batch along the greedy tokens."""
    if group[0].arm.split is None:
        itself = {variant: torch.zeros(len(one.tokens)) for variant, one in said.items()}
        return [{variant: Followed(kl == 0, kl) for variant, kl in itself.items()}]
    reached = [Reached(one.adapter, one.cache, one.hidden[:, -1:], tokens) for one in group]
    greedy, real = said["greedy"], said["text"]
    steps = step_by_step(reached, len(greedy.tokens), lambda step, _: greedy.tokens[step])
    compared = [_compared(greedy.logits[step], logits) for step, logits in enumerate(steps)]
    along = _stacked(compared)
    found: list[dict[Variant, Followed]] = []
    for place, one in enumerate(reached):
        parts = _logits_in_parts(one, real.tokens)
        text = [_compared(own, other) for own, other in zip(torch.split(real.logits, ROWS_AT_ONCE), parts, strict=True)]
        mine = Followed(along.top1[:, place], along.kl[:, place])
        found.append({"greedy": mine, "text": Followed(*(torch.cat(each) for each in zip(*text, strict=True)))})
    return found


def _compared(exact: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    return exact.argmax(-1) == other.argmax(-1), divergence(exact, other).float()


def _stacked(compared: Sequence[tuple[Tensor, Tensor]]) -> Followed:
    top1, kl = zip(*compared, strict=True)
    return Followed(torch.stack(top1), torch.stack(kl))


def _row(run: DocumentRun, name: str, domain: str, seed: int, done: ArmRun) -> Row:
    return {
        **{key: run.labels[key] for key in ("experiment", "model")},
        "document": name,
        "domain": domain,
        "prompt_tokens": run.prompt_tokens,
        "new_tokens": run.scored_tokens,
        "seed": seed,
        "tail": done.tail,
        "split": done.arm.split,
        "arm": done.arm.name,
        "filled_rows": done.filled_rows,
        "exact_rows": len(done.selected),
        "macs": done.macs.total,
        "exact_macs": exact_macs(run.geometry, run.prompt_tokens),
        "status": "ok",
    }


def _token_rows(
    run: DocumentRun, name: str, domain: str, done: ArmRun, variant: Variant, said: Said, followed: Followed
) -> Iterator[Row]:
    kept = torch.isfinite(followed.kl).tolist()
    for place, (top1, kl) in enumerate(zip(followed.top1.tolist(), followed.kl.tolist(), strict=True)):
        yield {
            "document": name,
            "domain": domain,
            "variant": variant,
            "arm": done.arm.name,
            "split": done.arm.split,
            "prompt_tokens": run.prompt_tokens,
            "position": run.prompt_tokens + place,
            "token": said.tokens[place],
            "copyable": said.copyable[place],
            "top1": top1,
            "kl": kl if kept[place] else None,
            "status": "ok" if kept[place] else "not finite",
        }
