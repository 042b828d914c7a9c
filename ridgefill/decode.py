"""Greedy decoding of several arms' caches as one batch: every generated token runs the full model."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.models.base import Adapter, Rows
from ridgefill.models.cache import RowCache, decode_mask, select, stack
from ridgefill.passes import require_finite

Finished = Callable[[int, list[int]], bool]
"""Entry number and its tokens so far -> whether its score can no longer change."""


@dataclass
class _Batch:
    cache: RowCache
    entries: list[int]
    starts: list[list[int]]
    last: Tensor


def decode_greedy(
    adapter: Adapter,
    caches: Sequence[RowCache],
    first_logits: Tensor,
    *,
    prompt_tokens: int,
    new_tokens: int,
    stop_ids: Collection[int],
    finished: Finished,
) -> list[list[int]]:
    """Greedy tokens of every cache (each batch 1, same prompt length), at most ``new_tokens`` each.

    first_logits: ``[A, vocabulary]``, the prefill's last row per arm. An entry ends at a stop token (not
    returned) or when ``finished`` says so. Entries that ended leave the batch once half of it has ended, so
    which rows share a matrix product depends only on the outputs: the same run gives the same bytes.
    """
    outputs: list[list[int]] = [[] for _ in caches]
    alive = set(range(len(caches)))
    batch = _Batch(stack(caches, prompt_tokens), list(alive), [list(c.start) for c in caches], first_logits.argmax(-1))
    for step in range(new_tokens):
        _collect(batch, outputs, alive, stop_ids, finished)
        if not alive or step + 1 == new_tokens:
            break
        if 2 * len(alive) <= len(batch.entries):
            batch = _compact(batch, alive, adapter.device)
        logits = _step(adapter, batch, prompt_tokens + step)
        batch.last = logits.argmax(-1)
    return outputs


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
        batch.last[index],
    )


def _step(adapter: Adapter, batch: _Batch, position: int) -> Tensor:
    where = torch.tensor([position], device=adapter.device)
    rotary = adapter.rotary(where)
    x = adapter.embed(batch.last[:, None])
    for layer in range(adapter.layers):
        mask = decode_mask(batch.starts, layer, position + 1, adapter.device)
        rows = Rows(where, slice(position, position + 1), position + 1, rotary, mask)
        x = adapter.run_layer(layer, x, rows, batch.cache)
    require_finite(x, "a decoding step")
    return adapter.logits(x)[:, -1]
