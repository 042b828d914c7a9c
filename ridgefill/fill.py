"""The filled prefill (METHOD section 3): late layers write filled rows from a prediction, exact rows run in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.models.base import Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.passes import LowerPass, require_finite
from ridgefill.rows import RowPlan

Predict = Callable[[int, Tensor], Tensor]
"""Layer number and split state ``[1, F, width]`` to the predicted block input ``[1, F, hidden]``."""

ROWS_AT_ONCE = 1024
"""Exact rows per layer call, so that attention memory does not grow with rows x tokens."""


@dataclass(frozen=True)
class Filled:
    """A prefilled prompt. cache: all layers. hidden: output of the last layer on the exact rows,
    ``[1, E, hidden]``, the last row being the prompt's last. seconds: wall clock of the late layers."""

    cache: RowCache
    hidden: Tensor
    seconds: float


def oracle(adapter: Adapter, inputs: Mapping[int, Tensor], filled: Tensor) -> Predict:
    """A prediction that is the truth, from the exact pass's own layer inputs. For tests and splices.

    filled: the filled rows of the prompt; a layer that needs only the last of them is asked for those.
    """
    return lambda layer, state: adapter.block_input(layer, inputs[layer][:, filled[-state.shape[1] :]])


def run_late(
    adapter: Adapter, lower: LowerPass, plan: RowPlan, predict: Predict | None, arm: Arm, continuation: int = 0
) -> Filled:
    """Run the late layers of one prompt under ``plan`` and return its cache and last outputs.

    predict: None when the arm writes nothing. continuation: rows after the prompt (already in ``lower``) that
    run every layer as well. Raises ``NumericsError`` when an output is not finite, ``ConfigError`` for a split the
    model cannot have.
    """
    adapter.require_split(lower.split)
    begin = perf_counter()
    cache = lower.cache.lower(lower.split)
    cache.start[lower.split :] = [plan.start] * (adapter.layers - lower.split)
    after = torch.arange(lower.tokens, lower.tokens + continuation, device=adapter.device)
    exact = torch.cat([plan.exact, after])
    chunks = [adapter.rows(part, start=plan.start) for part in exact.split(ROWS_AT_ONCE)]
    writes = _Filled(adapter, lower.state, plan.filled, int(exact[0])) if predict is not None else None
    x = lower.state[:, exact]
    for layer in range(lower.split, adapter.layers):
        filled, predicted = None, None
        if writes is not None and predict is not None and (part := writes.needed(layer)) is not None:
            filled, state = part
            true_input = layer == lower.split and arm.split_layer == "exact"
            predicted = adapter.block_input(layer, state) if true_input else predict(layer, state)
        x = adapter.run_late(layer, x, chunks, predicted, filled, cache)
    require_finite(x, f"the output of arm {arm.key}")
    return Filled(cache, x, perf_counter() - begin)


class _Filled:
    """The filled rows of a prompt and their split states, cut to those that some exact row can see in a layer."""

    def __init__(self, adapter: Adapter, state: Tensor, positions: Tensor, first_exact: int) -> None:
        self.adapter, self.first_exact = adapter, first_exact
        self.state, self.positions = state, positions
        self.parts: dict[int, tuple[Rows, Tensor] | None] = {}

    def needed(self, layer: int) -> tuple[Rows, Tensor] | None:
        """Rows to write in ``layer`` and their split states, or None when there are none."""
        first = self.adapter.first_needed(layer, self.first_exact)
        if first not in self.parts:
            positions = self.positions[self.positions >= first]
            rows = self.adapter.rows(positions, attend=False) if positions.numel() else None
            self.parts[first] = None if rows is None else (rows, self.state[:, positions])
        return self.parts[first]


def predictor(arm: Arm, maps: Mapping[int, Predict], adapter: Adapter) -> Predict | None:
    """What ``arm`` writes for filled rows, given the fitted maps by split.

    The identity fill takes the split state for every late layer's input (POP).
    """
    if arm.fill == "identity":
        return adapter.block_input
    if arm.fill == "ridge":
        if arm.split not in maps:
            known = ", ".join(str(split) for split in sorted(maps)) or "none"
            raise ConfigError(f"arm {arm.key} needs maps for split {arm.split}; fitted splits are: {known}")
        return maps[arm.split]
    return None
