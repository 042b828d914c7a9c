"""Recurrent layers up to the end of the prefix, with the gates that their scan computes anyway."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from ridgefill.errors import ConfigError
from ridgefill.models.base import LINEAR, Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.models.recurrent import Recurrent


@dataclass(frozen=True)
class Scanned:
    """Prefix rows after they fed a recurrent layer.

    x: next inputs of the exact rows among them, ``[1, E, width]``. decay: ``g`` of every row in order of position,
    fp32 ``[R, value_heads]``. is_filled: boolean ``[R]``.
    """

    x: Tensor
    decay: Tensor
    is_filled: Tensor


def recurrent_layers(adapter: Adapter, split: int, what: str) -> tuple[int, ...]:
    """Recurrent layers from ``split`` on. ConfigError, naming ``what`` needs them, when there are none."""
    found = tuple(layer for layer in range(split, adapter.layers) if adapter.kinds[layer] == LINEAR)
    if not found:
        raise ConfigError(
            f"{what} needs a recurrent layer from split {split} on, and this {adapter.fingerprint['family']} model has "
            "none there; leave it out"
        )
    return found


def scan_prefix(
    adapter: Adapter,
    layer: int,
    x: Tensor,
    exact: Sequence[Rows],
    predicted: Tensor | None,
    filled: Rows | None,
    cache: RowCache,
) -> Scanned:
    """``Adapter.run_late`` of a recurrent layer for prefix rows, at least one of them, exact or filled or both."""
    if filled is None or predicted is None:
        # No filled row, spelled so that the scan that notes its gates still runs instead of the stock layer.
        filled = replace(exact[0], positions=exact[0].positions[:0])
        predicted = x.new_zeros(x.shape[0], 0, adapter.hidden)
    x, decay = cast(Recurrent, adapter).run_noting(layer, x, exact, predicted, filled, cache)
    positions = torch.cat([filled.positions, *(rows.positions for rows in exact)])
    is_filled = torch.arange(positions.numel(), device=positions.device) < filled.positions.numel()
    return Scanned(x, decay[0], is_filled[positions.argsort()])


def state_of(cache: RowCache, layer: int) -> Tensor:
    """The recurrent state itself, ``[B, value_heads, key_dim, value_dim]``, not a copy."""
    state: Tensor = cache.state(layer).recurrent_states[0]
    return state
