"""The filled prefill (METHOD section 3): late layers write filled rows from a prediction, exact rows run in full."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ridgefill.amend import Amended, Amendments, Tail, run_amended
from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.map_options import RidgeOptions
from ridgefill.models.base import LINEAR, Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.passes import LowerPass, require_finite
from ridgefill.rows import RowPlan

Predict = Callable[[int, Tensor], Tensor]
"""Layer number and split state ``[1, F, width]`` to the predicted block input ``[1, F, hidden]``."""

MapsKey = tuple[int | None, RidgeOptions]
"""Split, and how the maps were fitted."""
NOTHING = Amendments()
ROWS_AT_ONCE = 1024
"""Exact rows per layer call, so that attention memory does not grow with rows x tokens."""


@dataclass(frozen=True)
class Filled:
    """A prefilled prompt. cache: all layers. hidden: output of the last layer on the exact rows,
    ``[1, E, hidden]``, the last row being the prompt's last. seconds: wall clock of the late layers. measured: what
    corrections measured in each layer, see ``Measured``."""

    cache: RowCache
    hidden: Tensor
    seconds: float
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Measured:
    """One number per head that a correction measured in one layer: ``key_scale``, ``value_scale`` or ``rho``."""

    layer: int
    what: str
    heads: tuple[float, ...]


def oracle(adapter: Adapter, inputs: Mapping[int, Tensor], filled: Tensor) -> Predict:
    """A prediction that is the truth, from the exact pass's own layer inputs. For tests and splices.

    filled: the filled rows of the prompt; a layer that needs only the last of them is asked for those.
    """
    return lambda layer, state: adapter.block_input(layer, inputs[layer][:, filled[-state.shape[1] :]])


def run_late(
    adapter: Adapter,
    lower: LowerPass,
    plan: RowPlan,
    predict: Predict | None,
    arm: Arm,
    continuation: int = 0,
    amendments: Amendments = NOTHING,
    swept: RowCache | None = None,
) -> Filled:
    """Run the late layers of one prompt under ``plan`` and return its cache and last outputs.

    predict: None when the arm writes nothing. continuation: rows after the prompt (already in ``lower``) that
    run every layer as well. amendments: what else is done to filled rows. swept: a cache whose late attention layers
    hold every filled row already (``first_sweep``). Raises ``NumericsError`` when an output is not finite,
    ``ConfigError`` or ``MapError`` for a split or amendments that the model cannot have.
    """
    adapter.require_split(lower.split)
    amendments.require(adapter, lower.split)
    begin = perf_counter()
    cache = lower.cache.lower(lower.split) if swept is None else swept
    cache.start[lower.split :] = [plan.start] * (adapter.layers - lower.split)
    after = torch.arange(lower.tokens, lower.tokens + continuation, device=adapter.device)
    exact = torch.cat([plan.exact, after])
    chunks = [adapter.rows(part, start=plan.start) for part in exact.split(ROWS_AT_ONCE)]
    writes = _Writes(adapter, lower, plan, predict, arm.split_layer == "exact", swept is not None)
    x, measured = lower.state[:, exact], []
    for layer in range(lower.split, adapter.layers):
        filled, predicted = writes.due(layer)
        done = run_amended(amendments, adapter, layer, x, chunks, predicted, filled, cache, writes.tail(layer))
        x = done.x
        measured += _measured(layer, done)
    require_finite(x, f"the output of arm {arm.key}")
    return Filled(cache, x, perf_counter() - begin, tuple(measured))


def first_sweep(adapter: Adapter, lower: LowerPass, prefix: int, predict: Predict, arm: Arm) -> RowCache:
    """A cache above the lower layers whose late attention layers hold a prediction for each of ``prefix`` rows."""
    cache = lower.cache.lower(lower.split)
    if not prefix:
        return cache
    rows = adapter.rows(torch.arange(prefix, device=adapter.device), attend=False)
    state = lower.state[:, :prefix]
    for layer in range(lower.split, adapter.layers):
        if adapter.kinds[layer] != LINEAR:
            true_input = layer == lower.split and arm.split_layer == "exact"
            predicted = adapter.block_input(layer, state) if true_input else predict(layer, state)
            adapter.write_filled(layer, predicted, rows, cache)
    return cache


def _measured(layer: int, done: Amended) -> list[Measured]:
    found = [] if done.scales is None else [(f"{part}_scale", heads) for part, heads in done.scales.scales.items()]
    if done.carried is not None:
        found.append(("rho", done.carried.share.rho))
    return [Measured(layer, what, tuple(heads.tolist())) for what, heads in found]


class _Writes:
    """What late layers write for the filled rows of a prompt: those that some exact row can see in a layer.

    true_input: whether the split layer's rows come from their own state. swept: whether attention layers hold them.
    """

    def __init__(
        self, adapter: Adapter, lower: LowerPass, plan: RowPlan, predict: Predict | None, true_input: bool, swept: bool
    ) -> None:
        self.adapter, self.lower, self.plan, self.predict = adapter, lower, plan, predict
        self.true_input, self.swept = true_input, swept
        self.parts: dict[int, tuple[Rows, Tensor] | None] = {}

    def due(self, layer: int) -> tuple[Rows | None, Tensor | None]:
        """Rows to write in ``layer`` and their block inputs, or None twice when there are none."""
        if self.predict is None or (self.swept and self.adapter.kinds[layer] != LINEAR):
            return None, None
        part = self._needed(layer)
        return (None, None) if part is None else (part[0], self._predicted(layer, part[1]))

    def tail(self, layer: int) -> Tail:
        """Where the tail begins among the exact rows, and what is predicted for it."""
        before = self.plan.exact.numel() - self.plan.tail
        state, positions = self.lower.state, self.plan.exact[before:]
        exact = self.predict is None or (self.true_input and layer == self.lower.split)
        guess = None if exact else lambda count: self._predicted(layer, state[:, positions[:count]])
        earlier = self.plan.filled if self.swept and self.plan.filled.numel() else None
        return Tail(before, self.plan.tail, guess, earlier=earlier)

    def _predicted(self, layer: int, state: Tensor) -> Tensor:
        if self.predict is None or (self.true_input and layer == self.lower.split):
            return self.adapter.block_input(layer, state)
        return self.predict(layer, state)

    def _needed(self, layer: int) -> tuple[Rows, Tensor] | None:
        first = self.adapter.first_needed(layer, int(self.plan.exact[0]))
        if first not in self.parts:
            positions = self.plan.filled[self.plan.filled >= first]
            rows = self.adapter.rows(positions, attend=False) if positions.numel() else None
            self.parts[first] = None if rows is None else (rows, self.lower.state[:, positions])
        return self.parts[first]


def predictor(arm: Arm, maps: Mapping[MapsKey, Predict], adapter: Adapter) -> Predict | None:
    """What ``arm`` writes for filled rows, given the fitted maps by split and options.

    The identity fill takes the split state for every late layer's input (POP); heads that read the split state
    themselves (SwiftKV, KVA) are handed it too.
    """
    if arm.fill in ("exact", "none"):
        return None
    if arm.fill != "ridge":
        return adapter.block_input
    key = (arm.split, arm.maps)
    if key not in maps:
        known = ", ".join(f"{split}{options.suffix}" for split, options in maps) or "none"
        raise ConfigError(f"arm {arm.key} needs maps{arm.maps.suffix} for split {arm.split}; fitted are: {known}")
    return maps[key]
