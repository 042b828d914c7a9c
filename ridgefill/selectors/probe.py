"""The probe: the prompt's last rows run the exact late layers over the filled caches, and rank what they attend to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from ridgefill.cost import PROBING
from ridgefill.errors import ConfigError
from ridgefill.models.base import LINEAR, Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.passes import LowerPass, require_finite
from ridgefill.ranking import ranked

ROWS_AT_ONCE = 64
"""Probing rows per layer call: their scores are held in fp32 for every head and position."""


def probe_rows(
    adapter: Adapter, lower: LowerPass, filled: RowCache, prefix: int, rows: int = PROBING
) -> tuple[int, ...]:
    """Every prefix position, the most attended first; ties to the lower position.

    filled: cache whose late attention layers hold a prediction for each of the ``prefix`` rows; it is the same
    afterwards, bit for bit. Raises ``ConfigError`` and ``NumericsError`` as ``probe_attention`` does.
    """
    return ranked(probe_attention(adapter, lower, filled, prefix, rows), prefix)


def probe_attention(adapter: Adapter, lower: LowerPass, filled: RowCache, prefix: int, rows: int = PROBING) -> Tensor:
    """Attention that each prefix row receives from the last ``rows`` rows in the late layers, fp32 ``[prefix]``.

    They run the exact late layers over the filled rows and themselves: the tail before them has not run yet, so nobody
    sees it, and recurrent layers start empty. Summed over those rows, heads, and late layers that see all rows. Raises
    ``ConfigError`` where there is no such layer, ``NumericsError`` where a filled row is missing.
    """
    late = range(lower.split, adapter.layers)
    if not any(adapter.attends(layer) for layer in late):
        raise ConfigError(
            f"no layer from split {lower.split} on attends to all rows, so no probe can rank them; expected a lower "
            "split, or another selector"
        )
    first = max(0, lower.tokens - rows)
    positions = torch.arange(first, lower.tokens, device=adapter.device)
    chunks = [_rows(adapter, part, prefix, first) for part in positions.split(ROWS_AT_ONCE)]
    received = torch.zeros(lower.tokens, dtype=torch.float32, device=adapter.device)
    x = lower.state[:, positions]
    with _borrowed(filled, late, slice(min(prefix, first), lower.tokens), slice(prefix, first)):
        for layer in late:
            after = adapter.run_late(layer, x, chunks, None, None, filled)
            if adapter.attends(layer):
                for part, chunk in zip(x.split(ROWS_AT_ONCE, dim=1), chunks, strict=True):
                    received[: chunk.stop] += adapter.attention_received(layer, part, chunk, filled)
            x = after
    require_finite(received[:prefix], "the attention that filled rows receive from the probe")
    return received[:prefix]


def _rows(adapter: Adapter, positions: Tensor, prefix: int, first: int) -> Rows:
    """Rows that see everything up to their own position but ``prefix`` to ``first`` (excluded)."""
    rows = adapter.rows(positions)
    if prefix >= first:
        return rows
    masks = dict(rows.mask)
    for kind in set(masks) - {LINEAR}:
        columns = torch.arange(rows.begin[kind], rows.stop, device=positions.device)
        seen = (columns < prefix) | (columns >= first)
        mask = masks[kind]
        # Without a mask there is a single row here, and it sees all before it.
        masks[kind] = seen[None, None, None] if mask is None else mask & seen
    return replace(rows, mask=masks)


@contextmanager
def _borrowed(cache: RowCache, layers: range, rows: slice, unseen: slice) -> Iterator[None]:
    """Lend ``rows`` of ``layers`` and their states to a probe: states begin empty, and all is put back afterwards.

    ``unseen`` rows hold zeros meanwhile: a NaN behind a mask would still reach the output.
    """
    places = [(store, layer) for store in (cache.keys, cache.values, cache.indexed) for layer in layers]
    before = [(store, layer, store[layer], _copied(store[layer], rows)) for store, layer in places]
    states = [cache.states[layer] for layer in layers]
    for _, _, tensor, _ in before:
        if tensor is not None:
            _part(tensor, unseen).zero_()
    cache.states[layers.start : layers.stop] = [None] * len(layers)
    try:
        yield
    finally:
        cache.states[layers.start : layers.stop] = states
        for store, layer, tensor, kept in before:
            store[layer] = tensor
            if tensor is not None and kept is not None:
                _part(tensor, rows).copy_(kept)


def _part(tensor: Tensor, rows: slice) -> Tensor:
    """A view of ``rows``; positions are the axis before the last in every store of a cache."""
    return tensor.narrow(tensor.ndim - 2, rows.start, max(0, rows.stop - rows.start))


def _copied(tensor: Tensor | None, rows: slice) -> Tensor | None:
    return None if tensor is None else _part(tensor, rows).clone()
