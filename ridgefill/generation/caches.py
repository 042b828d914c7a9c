"""From caches addressed by position to the stock transformers cache that ``generate`` continues from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import pad
from transformers.cache_utils import (
    Cache,
    DynamicCache,
    DynamicIndexedLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
)

from ridgefill.generation.prompts import Prompts
from ridgefill.models.cache import RowCache, stack


def unusable(cache: Cache, config: Any) -> str | None:
    """Why a prompt cannot be handed over in ``cache``, or None when it can.

    Only a dynamic cache on one device, with a layer of the right type for each of the model's, or without layers
    when all of the model's are plain attention (they are then added one by one, as the stock model does).
    """
    name = type(cache).__name__
    if type(cache) is not DynamicCache:
        return f"a {name} was given"
    if cache.offloading:
        return "an offloaded cache was given"
    needed = [type(layer) for layer in DynamicCache(config=config).layers]
    found = [type(layer) for layer in cache.layers]
    if found == needed or (not found and set(needed) == {DynamicLayer}):
        return None
    return "the cache was not made for the layers of this model (DynamicCache(config=model.config))"


def hand_over(caches: Sequence[RowCache], prompts: Prompts, cache: Cache, *, axes: int = 1, kept: int = 1) -> None:
    """Put prompts into an empty stock cache: ``caches`` has one for each batch entry, and may be empty afterwards.

    Columns before an entry's first token are zeros, which its attention mask hides. axes: how often the model numbers
    a row. kept: rows whose logits were asked for; all but one of them may be taken out again, so a window layer that
    records its past keeps as many more.
    """
    columns = prompts.columns
    alone = len(caches) == 1 and prompts.lengths[0] == columns
    merged = caches[0] if alone else stack(caches, prompts.lengths, 0)[0]
    for layer in range(len(merged.keys)):
        state, key, value = merged.states[layer], merged.keys[layer], merged.values[layer]
        if state is not None:
            _give_states(cache.layers[layer], state)
        if key is not None and value is not None:
            _give_rows(cache, layer, _left_padded(key, columns), _left_padded(value, columns), kept)
        raw = merged.indexed[layer]
        if raw is not None:
            cache.update_indexer(_left_padded(raw, columns), layer)
        # The stock cache has a copy by now; keeping ours too would double the memory of a long prompt.
        merged.keys[layer] = merged.values[layer] = merged.indexed[layer] = None
    indexed = next((layer for layer in cache.layers if isinstance(layer, DynamicIndexedLayer)), None)
    if indexed is not None:  # the first such layer keeps the positions for all of them
        indexed.indexer_position_ids = prompts.positions.expand(axes, -1, -1)


def _left_padded(rows: Tensor, columns: int) -> Tensor:
    """Zeros before the first column where every prompt of the batch has padding."""
    missing = columns - int(rows.shape[-2])
    return pad(rows, (0, 0, missing, 0)) if missing else rows


def _give_rows(cache: Cache, number: int, key: Tensor, value: Tensor, kept: int) -> None:
    columns = int(key.shape[-2])
    layer = cache.layers[number] if number < len(cache.layers) else None
    if not isinstance(layer, DynamicSlidingWindowLayer):
        cache.update(key, value, number)
        return
    # Rows further back hold nothing in late layers, and no later token can see them.
    needed = layer.sliding_window - 1 + (kept - 1 if layer.record_past else 0)
    first = max(0, columns - needed)
    cache.update(key[:, :, first:], value[:, :, first:], number)
    layer.cumulative_length = columns


def _give_states(layer: Any, state: LinearAttentionLayer) -> None:
    for name in ("conv_states", "recurrent_states"):
        for number, started in getattr(state, f"is_{name}_initialized").items():
            if started:
                tensor = getattr(state, name)[number]
                layer.lazy_initialization(**{name: tensor}, state_idx=number)
                getattr(layer, name)[number].copy_(tensor)
                layer.has_previous_state[number] = state.has_previous_state[number]
