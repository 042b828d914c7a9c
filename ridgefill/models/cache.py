"""A key-value cache addressed by prompt position, so that filled and exact rows can be written in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgefill.errors import NumericsError

RowIndex = slice | Tensor
"""Positions to write: a slice for a contiguous run, else int64 ``[R]``."""


class RowCache:
    """Keys and values of every layer, each ``[B, kv_heads, capacity, head_dim]``, row ``p`` at position ``p``.

    Buffers start as NaN: a row that is read before it was written poisons the logits instead of passing
    for a zero. ``start[l]`` is the first position visible in layer ``l`` (above 0 when an arm writes nothing
    for the prefix).
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.start: list[int] = [0] * layers

    def write(self, layer: int, key: Tensor, value: Tensor, rows: RowIndex) -> None:
        """Store ``key`` and ``value`` (``[B, kv_heads, R, head_dim]``, rotated keys) at ``rows`` of ``layer``."""
        self._buffer(self.keys, layer, key)[:, :, rows] = key
        self._buffer(self.values, layer, value)[:, :, rows] = value

    def visible(self, layer: int, stop: int) -> tuple[Tensor, Tensor]:
        """Keys and values of positions ``start[layer]`` up to ``stop``, as views."""
        key, value = self.keys[layer], self.values[layer]
        if key is None or value is None:
            raise NumericsError(f"layer {layer} of the cache was read before any row was written to it")
        if stop > self.capacity:
            # Assigning one row past the end broadcasts to nothing, so the row would vanish without a word.
            raise NumericsError(
                f"the cache holds {self.capacity} rows, but row {stop - 1} was used; give it more capacity"
            )
        rows = slice(self.start[layer], stop)
        return key[:, :, rows], value[:, :, rows]

    def lower(self, split: int) -> RowCache:
        """A cache that shares the layers below ``split`` with this one and has nothing written above."""
        shared = RowCache(len(self.keys), self.capacity)
        shared.keys[:split] = self.keys[:split]
        shared.values[:split] = self.values[:split]
        return shared

    def _buffer(self, store: list[Tensor | None], layer: int, like: Tensor) -> Tensor:
        found = store[layer]
        if found is None:
            batch, heads, _, width = like.shape
            found = like.new_full((batch, heads, self.capacity, width), float("nan"))
            store[layer] = found
        return found


@dataclass(frozen=True)
class RowView:
    """What a stock attention module sees as its cache: writes go to ``rows``, reads end before ``stop``."""

    cache: RowCache
    rows: RowIndex
    stop: int

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """The call transformers attention modules make: store the new rows, return all visible ones."""
        self.cache.write(layer_idx, key, value, self.rows)
        return self.cache.visible(layer_idx, self.stop)


def stack(caches: Sequence[RowCache], lengths: Sequence[int], new_tokens: int) -> tuple[RowCache, list[list[int]]]:
    """One cache with a batch entry per given cache (each of batch 1), and where each entry begins in each layer.

    Prompts of different ``lengths`` end in the same column, the longest length, and ``new_tokens`` columns follow.
    Columns that an entry cannot see are zeros, to be hidden by a mask: a NaN would survive the mask.
    """
    layers, edge = len(caches[0].keys), max(lengths)
    merged = RowCache(layers, edge + new_tokens)
    for layer in range(layers):
        merged.keys[layer] = _stack_layer(caches, layer, lengths, merged.capacity, edge, "keys")
        merged.values[layer] = _stack_layer(caches, layer, lengths, merged.capacity, edge, "values")
    starts = [[start + edge - length for start in cache.start] for cache, length in zip(caches, lengths, strict=True)]
    return merged, starts


def _stack_layer(
    caches: Sequence[RowCache], layer: int, lengths: Sequence[int], capacity: int, edge: int, name: str
) -> Tensor:
    first: Tensor = getattr(caches[0], name)[layer]
    _, heads, _, width = first.shape
    # Not zeroed as a whole: columns after the edge are written before anything can see them.
    out = first.new_empty((len(caches), heads, capacity, width))
    for entry, (cache, length) in enumerate(zip(caches, lengths, strict=True)):
        begin = cache.start[layer] + edge - length
        out[entry, :, :begin] = 0.0
        out[entry, :, begin:edge] = getattr(cache, name)[layer][0, :, cache.start[layer] : length]
    return out


def select(cache: RowCache, entries: Tensor) -> RowCache:
    """The batch entries ``entries`` (int64) of ``cache``, copied."""
    kept = RowCache(len(cache.keys), cache.capacity)
    kept.keys = [None if key is None else key[entries] for key in cache.keys]
    kept.values = [None if value is None else value[entries] for value in cache.values]
    return kept


def decode_mask(starts: Sequence[Sequence[int]], layer: int, stop: int, device: torch.device) -> Tensor | None:
    """``[B, 1, 1, stop]`` boolean mask for one new token per entry, or None when every entry sees all rows."""
    first = torch.tensor([entry[layer] for entry in starts], device=device)
    if not bool(first.any()):
        return None
    return (torch.arange(stop, device=device)[None, :] >= first[:, None])[:, None, None, :]
