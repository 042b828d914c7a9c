"""Greedy decoding of many caches as one batch: every generated token runs the full model.

A step reads every weight once whatever the batch, and a product of few rows is far from a processor's best, so the
arms of several prompts are decoded together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.models.base import Adapter, Rows
from ridgefill.models.cache import RowCache, decode_mask, select, stack
from ridgefill.passes import require_finite

Finished = Callable[[int, list[int]], bool]
"""Entry number and its tokens so far -> whether its score can no longer change."""
Choose = Callable[[Sequence[int], Tensor], Tensor]
"""Entry numbers and their logits ``[B, vocabulary]`` -> the next token of each, int64 ``[B]``."""


def most_likely(_: Sequence[int], logits: Tensor) -> Tensor:
    """Each entry's most likely token, int64 ``[B]``, of logits ``[B, vocabulary]``."""
    return logits.argmax(-1)


@dataclass
class _Batch:
    cache: RowCache
    entries: list[int]
    starts: list[list[int]]
    lengths: Tensor
    last: Tensor


def decode_greedy(
    adapter: Adapter,
    caches: Sequence[RowCache],
    first_logits: Tensor,
    *,
    prompt_tokens: Sequence[int],
    new_tokens: int,
    stop_ids: Collection[int],
    finished: Finished,
    choose: Choose = most_likely,
) -> list[list[int]]:
    """Tokens of every cache (each batch 1), at most ``new_tokens`` each: greedy ones unless ``choose`` says otherwise.

    prompt_tokens: each cache's prompt length; every entry keeps its own positions. first_logits:
    ``[A, vocabulary]``, the prefill's last row of each. An entry ends at a stop token (not
    returned) or when ``finished`` says so. Entries that ended leave the batch once half of it has ended, so
    which rows share a matrix product depends only on the outputs: the same run gives the same bytes. ``choose`` is
    asked once a step; until they leave, for entries that ended too.
    """
    outputs: list[list[int]] = [[] for _ in caches]
    alive = set(range(len(caches)))
    edge = max(prompt_tokens)
    first = choose(range(len(caches)), first_logits)
    batch = _stacked(adapter, caches, first, prompt_tokens, new_tokens)
    for step in range(new_tokens):
        _collect(batch, outputs, alive, stop_ids, finished)
        if not alive or step + 1 == new_tokens:
            break
        if 2 * len(alive) <= len(batch.entries):
            batch = _compact(batch, alive, adapter.device)
        logits = _step(adapter, batch, edge + step, batch.lengths + step)
        batch.last = choose(batch.entries, logits)
    return outputs


def decode_steps(
    adapter: Adapter, caches: Sequence[RowCache], first_logits: Tensor, *, prompt_tokens: Sequence[int], new_tokens: int
) -> Iterator[Tensor]:
    """The same tokens a step at a time, int64 ``[A]``, for a caller that does other work between two of them.

    The first come from ``first_logits``, without a step. ``new_tokens`` each: no entry ends before the others.
    """
    edge = max(prompt_tokens)
    batch = _stacked(adapter, caches, first_logits.argmax(-1), prompt_tokens, new_tokens)
    yield batch.last
    for step in range(new_tokens - 1):
        batch.last = _step(adapter, batch, edge + step, batch.lengths + step).argmax(-1)
        yield batch.last


def _stacked(
    adapter: Adapter, caches: Sequence[RowCache], first: Tensor, prompt_tokens: Sequence[int], new_tokens: int
) -> _Batch:
    cache, starts = stack(caches, prompt_tokens, new_tokens)
    lengths = torch.tensor(list(prompt_tokens), device=adapter.device)
    return _Batch(cache, list(range(len(caches))), starts, lengths, first)


def _collect(
    batch: _Batch, outputs: list[list[int]], alive: set[int], stop_ids: Collection[int], finished: Finished
) -> None:
    for entry, token in zip(batch.entries, batch.last.tolist(), strict=True):
        if entry not in alive:
            continue
        if token in stop_ids:
            alive.discard(entry)
            continue
        outputs[entry].append(token)
        if finished(entry, outputs[entry]):
            alive.discard(entry)


def _compact(batch: _Batch, alive: set[int], device: torch.device) -> _Batch:
    keep = [place for place, entry in enumerate(batch.entries) if entry in alive]
    index = torch.tensor(keep, device=device)
    return _Batch(
        select(batch.cache, index),
        [batch.entries[place] for place in keep],
        [batch.starts[place] for place in keep],
        batch.lengths[index],
        batch.last[index],
    )


def _step(adapter: Adapter, batch: _Batch, column: int, positions: Tensor) -> Tensor:
    """One token of every entry: written to ``column``, rotated to its own position (int64 ``[B]``)."""
    stop = column + 1
    rotary = {
        kind: (cos.transpose(0, 1), sin.transpose(0, 1)) for kind, (cos, sin) in adapter.rotary(positions).items()
    }
    ids = batch.last[:, None]
    x = adapter.embed(ids)
    for layer in range(adapter.layers):
        kind = adapter.kinds[layer]
        begin = adapter.first_needed(layer, column)
        mask = decode_mask(batch.starts, layer, begin, stop, adapter.device)
        rows = Rows(positions, slice(column, stop), stop, rotary, {kind: begin}, {kind: mask}, ids)
        x = adapter.run_layer(layer, x, rows, batch.cache)
    require_finite(x, "a decoding step")
    return adapter.logits(x)[:, -1]
