"""Recurrent layers up to the end of the prefix, with the gates that their scan computes anyway."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from ridgefill.errors import ConfigError
from ridgefill.models.base import LINEAR, Adapter, Rows, view
from ridgefill.models.cache import RowCache
from ridgefill.models.recurrent import HybridAdapter


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
    gates: list[Tensor] = []
    watched = _noting(adapter, gates)
    if filled is None or predicted is None:
        # No filled row, spelled so that the scan that notes its gates still runs instead of the stock layer.
        filled = replace(exact[0], positions=exact[0].positions[:0])
        predicted = x.new_zeros(x.shape[0], 0, adapter.hidden)
    if exact:
        x = watched.run_late(layer, x, exact, predicted, filled, cache)
    else:
        advance(watched, layer, predicted, filled, cache)
    positions = torch.cat([filled.positions, *(rows.positions for rows in exact)])
    is_filled = torch.arange(positions.numel(), device=positions.device) < filled.positions.numel()
    return Scanned(x, gates[0][0], is_filled[positions.argsort()])


def advance(adapter: Adapter, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
    """Feed block inputs ``[1, R, hidden]`` to a recurrent layer's states, in order, for no output."""
    hybrid = cast(HybridAdapter, adapter)
    block = hybrid.decoder.layers[layer].linear_attn
    # The rule gives the output of at least one row; the last one's is the price of not taking the rule apart.
    last = torch.tensor([block_input.shape[1] - 1], device=block_input.device)
    hybrid.rule.mix(block, hybrid.normed(layer, block_input), last, view(cache, rows, LINEAR))


def state_of(cache: RowCache, layer: int) -> Tensor:
    """The recurrent state itself, ``[B, value_heads, key_dim, value_dim]``, not a copy."""
    state: Tensor = cache.state(layer).recurrent_states[0]
    return state


def _noting(adapter: Adapter, gates: list[Tensor]) -> HybridAdapter:
    """The adapter, with every scan's log gates ``[B, R, value_heads]`` appended to ``gates``."""
    hybrid = cast(HybridAdapter, adapter)
    stock = hybrid.rule.scan

    def scan(*args: Any, g: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
        gates.append(g)
        return stock(*args, g=g, **options)

    noting = copy.copy(hybrid)
    noting.rule = replace(hybrid.rule, scan=scan)
    return noting
