"""A key-value cache addressed by prompt position, so that filled and exact rows can be written in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import LinearAttentionLayer

from ridgefill.errors import NumericsError

RowIndex = slice | Tensor
"""Positions to write: a slice for a contiguous run, else int64 ``[R]``."""


def beside(rows: RowIndex, device: torch.device) -> RowIndex:
    """The same positions where they can index a tensor on ``device``."""
    return rows if isinstance(rows, slice) else rows.to(device)


STATES = 3
"""States a recurrent layer may keep beside its recurrent one: convolution windows, recent token ids."""


class RowCache:
    """Keys and values of every layer, each ``[B, kv_heads, capacity, head_dim]``, row ``p`` at position ``p``.

    Buffers start as NaN: a row that is read before it was written poisons the logits instead of passing
    for a zero. ``start[l]`` is the first position visible in layer ``l`` (above 0 when an arm writes nothing
    for the prefix). ``states[l]`` are a recurrent layer's states after the last row it ran, and ``indexed[l]``
    the raw indexer keys of a sparse layer, ``[B, capacity, index_dim]``.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        self.capacity = capacity
        self.keys: list[Tensor | None] = [None] * layers
        self.values: list[Tensor | None] = [None] * layers
        self.indexed: list[Tensor | None] = [None] * layers
        self.states: list[LinearAttentionLayer | None] = [None] * layers
        self.start: list[int] = [0] * layers

    def write(self, layer: int, key: Tensor, value: Tensor, rows: RowIndex) -> None:
        """Store ``key`` and ``value`` (``[B, kv_heads, R, head_dim]``, rotated keys) at ``rows`` of ``layer``."""
        self._buffer(self.keys, layer, key, 2)[:, :, rows] = key
        self._buffer(self.values, layer, value, 2)[:, :, rows] = value

    def write_indexed(self, layer: int, raw: Tensor, rows: RowIndex) -> None:
        """Store raw indexer keys ``[B, R, index_dim]`` at ``rows`` of ``layer``."""
        self._buffer(self.indexed, layer, raw, 1)[:, rows] = raw

    def visible(self, layer: int, begin: int, stop: int) -> tuple[Tensor, Tensor]:
        """Keys and values of positions ``begin`` (or ``start[layer]``, if later) up to ``stop``, as views."""
        key, value = self.keys[layer], self.values[layer]
        if key is None or value is None:
            raise NumericsError(f"layer {layer} of the cache was read before any row was written to it")
        self._require_room(stop)
        rows = slice(max(self.start[layer], begin), stop)
        return key[:, :, rows], value[:, :, rows]

    def visible_indexed(self, layer: int, begin: int, stop: int) -> Tensor:
        """Raw indexer keys of positions ``begin`` (or ``start[layer]``, if later) up to ``stop``, as a view."""
        raw = self.indexed[layer]
        if raw is None:
            raise NumericsError(f"layer {layer} of the cache has no indexer keys, as no row was written to it")
        self._require_room(stop)
        return raw[:, max(self.start[layer], begin) : stop]

    def state(self, layer: int) -> LinearAttentionLayer:
        """The states of a recurrent layer, empty before it ran."""
        found = self.states[layer]
        if found is None:
            found = self.states[layer] = LinearAttentionLayer(number_of_states=STATES)
        return found

    def lower(self, split: int) -> RowCache:
        """A cache that shares the layers below ``split`` with this one and has nothing written above."""
        shared = RowCache(len(self.keys), self.capacity)
        for mine, theirs in zip(shared._stores(), self._stores(), strict=True):
            mine[:split] = theirs[:split]
        return shared

    def _require_room(self, stop: int) -> None:
        if stop > self.capacity:
            # Assigning one row past the end broadcasts to nothing, so the row would vanish without a word.
            raise NumericsError(
                f"the cache holds {self.capacity} rows, but row {stop - 1} was used; give it more capacity"
            )

    def _stores(self) -> tuple[list[Any], ...]:
        return (self.keys, self.values, self.indexed, self.states)

    def _buffer(self, store: list[Tensor | None], layer: int, like: Tensor, axis: int) -> Tensor:
        found = store[layer]
        if found is None:
            shape = list(like.shape)
            shape[axis] = self.capacity
            found = store[layer] = like.new_full(shape, float("nan"))
        return found


@dataclass(frozen=True)
class RowView:
    """What a stock module sees as its cache: writes go to ``rows``, reads span ``begin`` up to ``stop``."""

    cache: RowCache
    rows: RowIndex
    begin: int
    stop: int

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """The call transformers attention modules make: store the new rows, return all visible ones."""
        self.cache.write(layer_idx, key, value, self.rows)
        return self.cache.visible(layer_idx, self.begin, self.stop)

    def update_indexer(self, raw: Tensor, layer_idx: int) -> Tensor:
        """The call sparse-attention indexers make: store the new raw keys, return all up to ``stop``."""
        self.cache.write_indexed(layer_idx, raw, self.rows)
        return self.cache.visible_indexed(layer_idx, self.begin, self.stop)

    # The five calls recurrent modules make go to transformers' own state keeper, so they mean what they mean there.

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """Convolution window, None before the first row."""
        state = self.cache.state(layer_idx)
        return state.conv_states[state_idx] if state.has_previous_state[state_idx] else None

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        """Recurrent state, None before the first row."""
        state = self.cache.state(layer_idx)
        return state.recurrent_states[state_idx] if state.has_previous_state[state_idx] else None

    def update_conv_state(self, new: Tensor, layer_idx: int, state_idx: int = 0, **options: Any) -> Tensor:
        """Shift new columns into the window; returns them with what a convolution needs before them."""
        full: Tensor = self.cache.state(layer_idx).update_conv_state(new, state_idx, **options)
        return full

    def update_recurrent_state(self, new: Tensor, layer_idx: int, state_idx: int = 0, **options: Any) -> Tensor:
        """Replace the recurrent state."""
        kept: Tensor = self.cache.state(layer_idx).update_recurrent_state(new, state_idx, **options)
        return kept

    def is_recording_past(self, layer_idx: int) -> bool:
        """Never: rows are addressed by position instead."""
        return False


def stack(caches: Sequence[RowCache], lengths: Sequence[int], new_tokens: int) -> tuple[RowCache, list[list[int]]]:
    """One cache with a batch entry per given cache (each of batch 1), and where each entry begins in each layer.

    Prompts of different ``lengths`` end in the same column, the longest length, and ``new_tokens`` columns follow.
    Columns that an entry cannot see are zeros, to be hidden by a mask: a NaN would survive the mask.
    """
    layers, edge = len(caches[0].keys), max(lengths)
    merged = RowCache(layers, edge + new_tokens)
    for layer in range(layers):
        merged.states[layer] = _join([cache.states[layer] for cache in caches])
        for name in ("keys", "values", "indexed"):
            if getattr(caches[0], name)[layer] is not None:
                getattr(merged, name)[layer] = _stack_layer(caches, layer, lengths, merged.capacity, edge, name)
    starts = [[start + edge - length for start in cache.start] for cache, length in zip(caches, lengths, strict=True)]
    return merged, starts


def _stack_layer(
    caches: Sequence[RowCache], layer: int, lengths: Sequence[int], capacity: int, edge: int, name: str
) -> Tensor:
    first: Tensor = getattr(caches[0], name)[layer]
    axis = first.ndim - 2
    shape = list(first.shape)
    shape[0], shape[axis] = len(caches), capacity
    # Not zeroed as a whole: columns after the edge are written before anything can see them.
    out = first.new_empty(shape)
    for entry, (cache, length) in enumerate(zip(caches, lengths, strict=True)):
        begin = cache.start[layer] + edge - length
        out[entry].narrow(axis - 1, 0, begin).zero_()
        rows: Tensor = getattr(cache, name)[layer][0].narrow(axis - 1, cache.start[layer], length - cache.start[layer])
        out[entry].narrow(axis - 1, begin, edge - begin).copy_(rows)
    return out


def _join(states: Sequence[LinearAttentionLayer | None]) -> LinearAttentionLayer | None:
    """Recurrent states of several caches as one batch, copied: a decoding step changes them in place."""
    kept = [state for state in states if state is not None]
    return (
        _copied(kept[0], lambda name, number: torch.cat([getattr(one, name)[number] for one in kept])) if kept else None
    )


def _copied(like: LinearAttentionLayer, take: Callable[[str, int], Tensor]) -> LinearAttentionLayer:
    """A state keeper as ``like``, with every state it has taken from ``take(name, number)``."""
    made = LinearAttentionLayer(number_of_states=STATES)
    for number in range(STATES):
        if like.is_conv_states_initialized[number]:
            made.lazy_initialization(conv_states=take("conv_states", number), state_idx=number)
            made.conv_states[number] = take("conv_states", number)
        if like.is_recurrent_states_initialized[number]:
            made.lazy_initialization(recurrent_states=take("recurrent_states", number), state_idx=number)
            made.recurrent_states[number] = take("recurrent_states", number)
        made.has_previous_state[number] = like.has_previous_state[number]
    return made


def select(cache: RowCache, entries: Tensor) -> RowCache:
    """The batch entries ``entries`` (int64) of ``cache``, copied."""
    kept = RowCache(len(cache.keys), cache.capacity)
    kept.keys = [None if key is None else _chosen(key, entries) for key in cache.keys]
    kept.values = [None if value is None else _chosen(value, entries) for value in cache.values]
    kept.indexed = [None if raw is None else _chosen(raw, entries) for raw in cache.indexed]
    kept.states = [state and _copied(state, _entries_of(state, entries)) for state in cache.states]
    return kept


def _entries_of(state: LinearAttentionLayer, entries: Tensor) -> Callable[[str, int], Tensor]:
    return lambda name, number: _chosen(getattr(state, name)[number], entries)


def _chosen(tensor: Tensor, entries: Tensor) -> Tensor:
    """Those entries of a layer's tensor, wherever the layer is."""
    return tensor[entries.to(tensor.device)]


def decode_mask(
    starts: Sequence[Sequence[int]], layer: int, begin: int, stop: int, device: torch.device
) -> Tensor | None:
    """``[B, 1, 1, stop - begin]`` boolean mask for one new token per entry, or None when every entry sees all rows."""
    first = torch.tensor([entry[layer] for entry in starts], device=device)
    if not bool((first > begin).any()):
        return None
    return (torch.arange(begin, stop, device=device)[None, :] >= first[:, None])[:, None, None, :]
