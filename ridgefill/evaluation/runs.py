"""Every arm of an experiment on one prompt, all from one exact pass: the lower layers run once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from ridgefill.amend import Amendments
from ridgefill.arms import Arm
from ridgefill.corrections.rescale import Rescale
from ridgefill.corrections.state import StateCorrection
from ridgefill.cost import Geometry, exact_macs
from ridgefill.errors import ConfigError
from ridgefill.fill import Filled, MapsKey, Measured, Predict, predictor, run_late
from ridgefill.fitted_names import correction_name
from ridgefill.models.base import LINEAR, Adapter
from ridgefill.models.cache import RowCache
from ridgefill.models.kva import KvaHeads
from ridgefill.models.load import Loaded
from ridgefill.passes import ExactPass, selector_layers
from ridgefill.rows import Macs, RowPlan, plan_macs, plan_rows, require_countable, tail_rows
from ridgefill.selectors.context import Context
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.sweeps import two_sweeps
from ridgefill.splices import Splice

Deltas = Mapping[int, Tensor]


@dataclass(frozen=True)
class Fitted:
    """What was fitted or counted beforehand for some arms.

    maps: predictions by split and options. deltas: offsets of recurrent states by ``correction_name``. frequencies: of
    tokens in the calibration documents. heads: what a kva arm writes from.
    """

    maps: Mapping[MapsKey, Predict] = field(default_factory=dict)
    deltas: Mapping[str, Deltas] = field(default_factory=dict)
    frequencies: Frequencies | None = None
    heads: KvaHeads | None = None


@dataclass(frozen=True)
class Setup:
    """What every suite needs: a model, arms and what was fitted for them. tail, window: counts of tokens."""

    loaded: Loaded
    arms: Sequence[Arm]
    fitted: Fitted
    geometry: Geometry
    tail: int
    window: int

    @property
    def given(self) -> list[Arm]:
        """Arms that read a prompt in its own order: all that a text has for which there is no question to move."""
        return [arm for arm in self.arms if arm.order == "given"]


@dataclass(frozen=True)
class ArmRun:
    """What one arm did with one prompt.

    adapter: under which its cache is continued. hidden: last layer's output, ``[1, R, hidden]``, ending with the
    prompt's last row and any continuation. selected: exact prefix rows. macs: multiply-accumulates of the prefill by
    the cost model. target: those it was matched to. seconds: lower layers, late layers. measured: by corrections.
    """

    arm: Arm
    adapter: Adapter
    cache: RowCache
    hidden: Tensor
    tail: int
    filled_rows: int
    selected: tuple[int, ...]
    macs: Macs
    target: int | None
    seconds: tuple[float, float]
    measured: tuple[Measured, ...] = ()


def require_arms(setup: Setup) -> None:
    """Refuse arms that this model, or what was fitted, does not allow, before any of them runs.

    Raises ``ConfigError`` or ``MapError`` with the reason.
    """
    for arm in setup.arms:
        adapter = arm_adapter(setup, arm)
        if arm.split is None:
            continue
        adapter.require_split(arm.split)
        predictor(arm, setup.fitted.maps, adapter)
        _require_layers(arm, adapter, arm.split)
        require_countable(arm)
        if "frequencies" in arm.needs and setup.fitted.frequencies is None:
            raise ConfigError(f"arm {arm.key} needs token frequencies of the calibration documents; count them first")
        arm_amendments(arm, setup.fitted).require(adapter, arm.split)


def _require_layers(arm: Arm, adapter: Adapter, split: int) -> None:
    """Refuse an arm that reads or replaces what no layer on its side of the split has."""
    late = adapter.kinds[split:]
    if "lower" in arm.needs and not any(layer < split for layer in selector_layers(adapter)):
        raise ConfigError(
            f"arm {arm.key} ranks rows by attention below its split, and no layer there sees all rows; expected a "
            f"split above one of the layers {', '.join(map(str, selector_layers(adapter)))}, or other rows"
        )
    if "probe" in arm.needs and not any(adapter.attends(layer) for layer in range(split, adapter.layers)):
        raise ConfigError(
            f"arm {arm.key} probes the late layers, and none of them sees all rows; expected a lower split, or other "
            "rows"
        )
    if arm.rows is not None and adapter.kva is not None and adapter.kva.context is not None:
        raise ConfigError(
            f"arm {arm.key} picks exact rows, and its KVA heads mix every row with all before it; expected no rows, or "
            "heads without a context (type linear)"
        )
    if "states" in arm.splice and LINEAR not in late:
        raise ConfigError(f"arm {arm.key} splices recurrent states, and the model has none from its split on")
    if {"keys", "values"} & set(arm.splice) and set(late) == {LINEAR}:
        raise ConfigError(f"arm {arm.key} splices keys or values, and no layer from its split on has any")


def kept_layers(setup: Setup) -> tuple[int, ...]:
    """Layers whose inputs the exact pass must keep: every arm's split, and late recurrent layers for their splices."""
    kept = {arm.split for arm in setup.arms if arm.split is not None}
    spliced = [arm.split for arm in setup.arms if "states" in arm.splice and arm.split is not None]
    kinds = setup.loaded.adapter.kinds
    recurrent = (layer for layer in range(min(spliced, default=len(kinds)), len(kinds)) if kinds[layer] == LINEAR)
    return tuple(sorted(kept.union(recurrent)))


def run_arms(setup: Setup, exact: ExactPass, context: Context, arms: Collection[Arm]) -> Iterator[ArmRun]:
    """Run each of ``arms`` on the context's tokens, the first rows of ``exact``; rows after them run in full.

    The context's seed is the sample's own, so arms that draw random rows share them.
    """
    tokens = context.tokens
    full = Macs(exact_macs(setup.geometry, tokens))
    for arm in arms:
        adapter = arm_adapter(setup, arm)
        if arm.split is None:
            hidden = exact.hidden[:, tokens - 1 :]
            yield ArmRun(arm, adapter, exact.cache, hidden, tokens, 0, (), full, None, (exact.clock[-1], 0.0))
            continue
        yield _run(setup, exact, replace(context, adapter=adapter, lower=exact.lower(arm.split, tokens)), arm)


def prefill_late(setup: Setup, context: Context, arm: Arm, exact: ExactPass | None = None) -> tuple[Filled, RowPlan]:
    """Pick the rows of one prompt and run its late layers under ``arm``, over the lower pass of its context.

    exact: the exact pass that the prompt begins, when there is one: rows after the prompt run in full too, and splices
    take their rows from it. Raises ``ConfigError`` for a splice without one.
    """
    adapter, lower = context.lower_pass()
    predict = predictor(arm, setup.fitted.maps, adapter)
    if arm.splice and exact is None:
        raise ConfigError(f"arm {arm.key} splices rows of an exact pass; expected to run beside one")
    splice = Splice(frozenset(arm.splice), exact) if arm.splice and exact is not None else None
    amendments = replace(arm_amendments(arm, setup.fitted), splice=splice)
    more = 0 if exact is None else exact.tokens - context.tokens
    if arm.rows is not None and "probe" in arm.needs:
        inside = replace(context, prefix=context.tokens - tail_rows(arm, context.tokens))
        swept = two_sweeps(adapter, inside, predict, arm.rows, arm, more, amendments)
        return swept.filled, swept.plan
    plan = plan_rows(arm, context, setup.geometry)
    return run_late(adapter, lower, plan, predict, arm, more, amendments), plan


def _run(setup: Setup, exact: ExactPass, context: Context, arm: Arm) -> ArmRun:
    adapter, lower = context.lower_pass()
    more = exact.tokens - context.tokens
    begin = perf_counter()
    done, plan = prefill_late(setup, context, arm, exact)
    seconds = perf_counter() - begin
    macs = plan_macs(arm, plan, context, setup.geometry)
    return ArmRun(
        arm,
        adapter,
        done.cache,
        done.hidden[:, -(more + 1) :],
        plan.tail,
        int(plan.filled.numel()),
        plan.selected,
        macs,
        plan.target,
        (lower.seconds, seconds),
        done.measured,
    )


def arm_adapter(setup: Setup, arm: Arm) -> Adapter:
    """The adapter under which an arm's late layers and its decoding run."""
    return setup.loaded.adapter.filling(arm.fill, arm.exact_rows, setup.fitted.heads)


def arm_amendments(arm: Arm, fitted: Fitted) -> Amendments:
    """What of an arm's amendments does not depend on the prompt."""
    deltas = None
    if arm.state_correction:
        name = correction_name(arm)
        if name not in fitted.deltas:
            known = ", ".join(sorted(fitted.deltas)) or "none"
            raise ConfigError(f"arm {arm.key} needs the state correction {name}; fitted are: {known}")
        deltas = fitted.deltas[name]
    return Amendments(
        rescale=Rescale(arm.rescale, arm.rescale_rows) if arm.rescale else None,
        correction=None if deltas is None else StateCorrection(deltas),
    )


def timing_rows(suite: str, item: str, runs: Sequence[ArmRun], exact_seconds: float) -> list[dict[str, Any]]:
    """Rows for ``timings``: what each arm's layers took in this process, beside the exact pass."""
    return [
        {
            "suite": suite,
            "item": item,
            "arm": run.arm.name,
            "split": run.arm.split,
            "lower_seconds": run.seconds[0],
            "late_seconds": run.seconds[1],
            "exact_seconds": exact_seconds,
        }
        for run in runs
    ]


def log_likelihood(adapter: Adapter, hidden: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood in nats, fp32 ``[R]``: ``hidden[0, i]`` predicts ``targets[i]`` (int64 ``[R]``)."""
    logits = adapter.logits(hidden)[0].float()
    return torch.nn.functional.cross_entropy(logits, targets, reduction="none")
