"""The two-sweep prefill (paper section 2.4): fill the late attention caches, probe them, then run the chosen rows.

Sweep one writes keys and values of every prefix row; the selector may read them. Sweep two runs exact rows and the tail
over them, and carries each recurrent state once through every prefix row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import perf_counter

import torch
from torch import Tensor

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.fill import ROWS_AT_ONCE, Filled, Predict
from ridgefill.models.base import LINEAR, Adapter, Rows
from ridgefill.models.cache import RowCache
from ridgefill.passes import LowerPass, require_finite
from ridgefill.rows import RowPlan, planned
from ridgefill.selectors.context import Context, Selector


@dataclass(frozen=True)
class Swept:
    """A prompt after both sweeps. plan: what the late layers did with each row. seconds: first sweep, selection."""

    filled: Filled
    plan: RowPlan
    seconds: tuple[float, float]


def two_sweeps(
    adapter: Adapter, context: Context, predict: Predict, selector: Selector, arm: Arm, continuation: int = 0
) -> Swept:
    """Prefill one prompt under ``arm`` with prefix rows that ``selector`` picks, from the filled caches if it wants.

    The context holds the lower pass. predict, arm, continuation: as for ``run_late``. The result is that of a single
    sweep with the same rows, but that windowed layers hold every prefix row. Raises ``ConfigError`` for a split that
    the model cannot have and for an arm that fills nothing, ``NumericsError`` when an output is not finite.
    """
    lower = context.lower_pass()[1]
    adapter.require_split(lower.split)
    if arm.fill not in ("identity", "ridge"):
        raise ConfigError(f"arm {arm.key} fills no row, so nothing can be probed; expected an arm that fills")
    begin = perf_counter()
    sweeps = _Sweeps(adapter, lower, predict, arm.split_layer == "exact")
    cache = sweeps.first(context.prefix)
    swept = perf_counter()
    selected = selector.rows(replace(context, filled=cache))
    chosen = perf_counter()
    plan = planned(context.tokens, context.prefix, selected, adapter.device)
    hidden = sweeps.second(plan, cache, continuation)
    require_finite(hidden, f"the output of arm {arm.key}")
    return Swept(Filled(cache, hidden, perf_counter() - begin), plan, (swept - begin, chosen - swept))


@dataclass(frozen=True)
class _Sweeps:
    """Both sweeps over one lower pass. true_input: the split layer's rows come from their own state."""

    adapter: Adapter
    lower: LowerPass
    predict: Predict
    true_input: bool

    @property
    def late(self) -> range:
        return range(self.lower.split, self.adapter.layers)

    def first(self, prefix: int) -> RowCache:
        """A cache above the lower layers whose late attention layers hold a prediction for every prefix row."""
        cache = self.lower.cache.lower(self.lower.split)
        rows = self._rows(torch.arange(prefix, device=self.adapter.device))
        for layer in self.late:
            if rows is not None and self.adapter.kinds[layer] != LINEAR:
                self.adapter.write_filled(layer, self._predicted(layer, rows), rows, cache)
        return cache

    def second(self, plan: RowPlan, cache: RowCache, continuation: int) -> Tensor:
        """Run the exact rows, then ``continuation`` rows after the prompt; their last outputs ``[1, R, hidden]``."""
        tokens = self.lower.tokens
        after = torch.arange(tokens, tokens + continuation, device=self.adapter.device)
        exact = torch.cat([plan.exact, after])
        chunks = [self.adapter.rows(part) for part in exact.split(ROWS_AT_ONCE)]
        filled = self._rows(plan.filled)
        x = self.lower.state[:, exact]
        for layer in self.late:
            # Attention layers have their filled rows; a recurrent one meets every row in order now.
            due = filled if self.adapter.kinds[layer] == LINEAR else None
            predicted = None if due is None else self._predicted(layer, due)
            x = self.adapter.run_late(layer, x, chunks, predicted, due, cache)
        return x

    def _rows(self, positions: Tensor) -> Rows | None:
        return self.adapter.rows(positions, attend=False) if positions.numel() else None

    def _predicted(self, layer: int, rows: Rows) -> Tensor:
        state = self.lower.state[:, rows.positions]
        if layer == self.lower.split and self.true_input:
            return self.adapter.block_input(layer, state)
        return self.predict(layer, state)
