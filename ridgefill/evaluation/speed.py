"""Time to first token, warm (EVALUATION section 1, speed): every arm as a user would run it, in turn with exact.

A user who fills runs the layers below the split, picks rows, runs the late layers and reads the last row's logits;
nothing is shared with an exact pass. A user who does not calls the stock model's own forward pass with a cache. Both
read the same prompt in one process, exact first, and each pair of requests has a prompt of its own. Times are this
machine's; only ratios within the process say something about the method.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from ridgefill.arms import Arm
from ridgefill.cost import exact_macs
from ridgefill.errors import ConfigError
from ridgefill.evaluation.clocks import Clock, peak_bytes, timed
from ridgefill.evaluation.runs import Setup, arm_adapter, prefill_late
from ridgefill.models.base import Adapter
from ridgefill.passes import LowerPass, run_lower
from ridgefill.rows import RowPlan, plan_macs, ranking_window
from ridgefill.selectors.context import Context

Row = dict[str, Any]
Contexts = Callable[[int], Context]
"""Number of a request to its prompt, another one for each."""


@dataclass(frozen=True)
class Filling:
    """A prompt prefilled under an arm. logits: of its last row, ``[1, 1, vocabulary]``. plan, lower: what it ran."""

    logits: Tensor
    plan: RowPlan
    lower: LowerPass
    cache: Any


@dataclass(frozen=True)
class Pair:
    """One prompt under exact and under an arm: seconds until the logits of the first new token were there."""

    exact_seconds: float
    seconds: float
    done: Filling


@dataclass(frozen=True)
class Peaks:
    """Bytes that one request's tensors took at most at once, see ``peak_bytes``."""

    exact: int
    arm: int


@dataclass(frozen=True)
class SpeedRun(Setup):
    """What a measurement of speed needs. repeats: timed requests of each arm and length. labels: of every row."""

    repeats: int
    labels: Mapping[str, Any]


def untimed(arm: Arm) -> str | None:
    """Why an arm is not served, so that it has no time to first token; None for one that is."""
    if arm.fill == "exact":
        return "exact is what every arm is timed against"
    if arm.splice:
        return f"arm {arm.key} splices rows of an exact pass, so nothing is saved"
    if arm.order != "given":
        return f"arm {arm.key} moves the question, and these prompts ask none"
    return None


def chosen_arms(
    arms: Sequence[Arm], names: Collection[str] | None, refused: Callable[[Arm], str | None] = untimed
) -> list[Arm]:
    """The arms that a suite names, or all that can be timed when it names none.

    Raises ``ConfigError`` with the reason for one that was named and is not known, or cannot be.
    """
    if names is None:
        return [arm for arm in arms if refused(arm) is None]
    known = {arm.name: arm for arm in arms}
    for name in names:
        if name not in known:
            raise ConfigError(f"arm {name!r} is to be timed and the experiment has none; known: {', '.join(known)}")
        if (reason := refused(known[name])) is not None:
            raise ConfigError(f"{reason}; leave it out of the suite's arms")
    return [known[name] for name in names]


def require_stock(adapter: Adapter) -> None:
    """Raise ``ConfigError`` where the model's own forward pass is not the exact arm."""
    if adapter.fingerprint["family"] == "llama_swiftkv":
        raise ConfigError(
            "a SwiftKV checkpoint's own forward pass is SwiftKV's, and its exact arm is the original Llama model; "
            "expected a model whose own forward pass is exact. Leave the speed suite out"
        )


def stock_prefill(adapter: Adapter, ids: Tensor) -> Any:
    """The stock model's own prefill of ``ids`` (int64 ``[1, N]``): a cache, and the last row's logits."""
    return cast(Any, adapter).model(ids.to(adapter.device), use_cache=True, logits_to_keep=1)


def filled_prefill(setup: Setup, arm: Arm, context: Context, ids: Tensor) -> Filling:
    """The prompt ``ids`` (int64 ``[1, N]``, the context's) prefilled under ``arm`` alone."""
    adapter = arm_adapter(setup, arm)
    split = cast(int, arm.split)
    first, end = ranking_window([arm], context.tokens, setup.window)
    lower = run_lower(adapter, ids, split, window=end - first)
    done, plan = prefill_late(setup, _over(context, adapter, lower), arm)
    return Filling(adapter.logits(done.hidden[:, -1:]), plan, lower, done.cache)


def measured_pair(setup: Setup, arm: Arm, context: Context) -> Peaks:
    """An untimed pair, by which both ways get warm; their memory is measured meanwhile."""
    adapter, ids = setup.loaded.adapter, torch.tensor([context.ids])
    return Peaks(
        peak_bytes(lambda: stock_prefill(adapter, ids), adapter.devices),
        peak_bytes(lambda: filled_prefill(setup, arm, context, ids), adapter.devices),
    )


def timed_pair(setup: Setup, arm: Arm, context: Context, clock: Clock) -> Pair:
    """A timed pair: exact, then the arm."""
    adapter, ids = setup.loaded.adapter, torch.tensor([context.ids])
    exact_seconds = timed(lambda: stock_prefill(adapter, ids), clock)[1]
    done, seconds = timed(lambda: filled_prefill(setup, arm, context, ids), clock)
    return Pair(exact_seconds, seconds, done)


def time_arm(
    run: SpeedRun, arm: Arm, contexts: Contexts, clock: Clock, told: Callable[[], object] = lambda: None
) -> list[Row]:
    """Rows for ``speed``: one untimed and ``repeats`` timed requests of one arm, each beside exact on the same prompt.

    told: called after each pair.
    """
    with torch.inference_mode():
        peaks = measured_pair(run, arm, contexts(0))
        told()
        rows = []
        for repeat in range(run.repeats):
            context = contexts(repeat + 1)
            pair = timed_pair(run, arm, context, clock)
            rows.append(_row(run, arm, context, repeat, pair, peaks))
            told()
    return rows


def _row(run: SpeedRun, arm: Arm, context: Context, repeat: int, pair: Pair, peaks: Peaks) -> Row:
    plan, adapter = pair.done.plan, run.loaded.adapter
    over = _over(context, adapter, pair.done.lower)
    return {
        **run.labels,
        "arm": arm.name,
        "split": arm.split,
        "length": context.tokens,
        "repeat": repeat,
        "exact_seconds": pair.exact_seconds,
        "seconds": pair.seconds,
        "filled_rows": int(plan.filled.numel()),
        "exact_rows": plan.tail + len(plan.selected),
        "macs": plan_macs(arm, plan, over, run.geometry).total,
        "exact_macs": exact_macs(run.geometry, context.tokens),
        "peak_bytes": peaks.arm,
        "exact_peak_bytes": peaks.exact,
        "device": adapter.device.type,
        "threads": torch.get_num_threads(),
        "dtype": str(adapter.dtype).removeprefix("torch."),
    }


def _over(context: Context, adapter: Adapter, lower: LowerPass) -> Context:
    return replace(context, adapter=adapter, lower=lower)
