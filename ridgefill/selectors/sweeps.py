"""The two-sweep prefill (paper section 2.4): fill the late attention caches, probe them, then run the chosen rows.

Sweep one writes keys and values of every prefix row; the selector may read them. Sweep two runs exact rows and the tail
over them, and carries each recurrent state once through every prefix row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter

from ridgefill.amend import Amendments
from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.fill import NOTHING, Filled, Predict, first_sweep, run_late
from ridgefill.models.base import Adapter
from ridgefill.rows import RowPlan, planned
from ridgefill.selectors.context import Context, Selector
from ridgefill.selectors.probe import probe_rows


@dataclass(frozen=True)
class Swept:
    """A prompt after both sweeps. plan: what the late layers did with each row. seconds: first sweep, selection."""

    filled: Filled
    plan: RowPlan
    seconds: tuple[float, float]


def two_sweeps(
    adapter: Adapter,
    context: Context,
    predict: Predict | None,
    selector: Selector,
    arm: Arm,
    continuation: int = 0,
    amendments: Amendments = NOTHING,
) -> Swept:
    """Prefill one prompt under ``arm`` with prefix rows that ``selector`` picks, from the filled caches if it wants.

    The context holds the lower pass. The other arguments are as for ``run_late``. The result is that of a single
    sweep with the same rows, but that windowed layers hold every prefix row. Raises ``ConfigError`` for a split that
    the model cannot have and for an arm that fills nothing, ``NumericsError`` when an output is not finite.
    """
    lower = context.lower_pass()[1]
    adapter.require_split(lower.split)
    if predict is None or arm.fill in ("exact", "none"):
        raise ConfigError(f"arm {arm.key} fills no row, so nothing can be probed; expected an arm that fills")
    begin = perf_counter()
    cache = first_sweep(adapter, lower, context.prefix, predict, arm)
    swept = perf_counter()
    probe = partial(probe_rows, adapter, lower, cache, context.prefix)
    selected = selector.rows(replace(context, probe=probe))
    chosen = perf_counter()
    plan = planned(context.tokens, context.prefix, selected, adapter.device)
    done = run_late(adapter, lower, plan, predict, arm, continuation, amendments, cache)
    filled = replace(done, seconds=done.seconds + chosen - begin)
    return Swept(filled, plan, (swept - begin, chosen - swept))
