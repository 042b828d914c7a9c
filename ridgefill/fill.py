"""The filled prefill (METHOD section 3): late layers write filled rows from a prediction, exact rows run in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache
from ridgefill.passes import LowerPass, require_finite
from ridgefill.rows import RowPlan

Predict = Callable[[int, Tensor], Tensor]
"""Layer number and split state ``[1, F, hidden]`` to the predicted layer input ``[1, F, hidden]``."""

ROWS_AT_ONCE = 1024
"""Exact rows per layer call, so that attention memory does not grow with rows x tokens."""


@dataclass(frozen=True)
class Filled:
    """A prefilled prompt. cache: all layers. hidden: output of the last layer on the exact rows,
    ``[1, E, hidden]``, the last row being the prompt's last. seconds: wall clock of the late layers."""

    cache: RowCache
    hidden: Tensor
    seconds: float


def identity(_: int, state: Tensor) -> Tensor:
    """POP's fill: every late layer's input is the split state."""
    return state


def oracle(inputs: Mapping[int, Tensor], filled: Tensor) -> Predict:
    """A prediction that is the truth: the exact pass's own layer inputs. For tests and splices."""
    return lambda layer, _: inputs[layer][:, filled]


def run_late(
    adapter: Adapter, lower: LowerPass, plan: RowPlan, predict: Predict | None, arm: Arm, continuation: int = 0
) -> Filled:
    """Run the late layers of one prompt under ``plan`` and return its cache and last outputs.

    predict: None when the arm writes nothing. continuation: rows after the prompt (already in ``lower``) that
    run every layer as well. Raises ``NumericsError`` when an output is not finite.
    """
    begin = perf_counter()
    cache = lower.cache.lower(lower.split)
    cache.start[lower.split :] = [plan.start] * (adapter.layers - lower.split)
    after = torch.arange(lower.tokens, lower.tokens + continuation, device=adapter.device)
    exact = torch.cat([plan.exact, after])
    chunks = [adapter.rows(part, start=plan.start) for part in exact.split(ROWS_AT_ONCE)]
    filled = adapter.rows(plan.filled, attend=False) if plan.filled.numel() else None
    state = lower.state[:, plan.filled]
    x = lower.state[:, exact]
    for layer in range(lower.split, adapter.layers):
        if filled is not None and predict is not None:
            true_input = layer == lower.split and arm.split_layer == "exact"
            adapter.write_filled(layer, state if true_input else predict(layer, state), filled, cache)
        parts = x.split(ROWS_AT_ONCE, dim=1)
        done = [adapter.run_layer(layer, part, rows, cache) for part, rows in zip(parts, chunks, strict=True)]
        x = torch.cat(done, dim=1)
    require_finite(x, f"the output of arm {arm.key}")
    return Filled(cache, x, perf_counter() - begin)


def predictor(arm: Arm, maps: Mapping[int, Predict]) -> Predict | None:
    """What ``arm`` writes for filled rows, given the fitted maps by split."""
    if arm.fill == "identity":
        return identity
    if arm.fill == "ridge":
        if arm.split not in maps:
            known = ", ".join(str(split) for split in sorted(maps)) or "none"
            raise ConfigError(f"arm {arm.key} needs maps for split {arm.split}; fitted splits are: {known}")
        return maps[arm.split]
    return None
