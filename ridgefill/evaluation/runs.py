"""Every arm of an experiment on one prompt, all from one exact pass: the lower layers run once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgefill.arms import Arm, make_arm
from ridgefill.cost import Geometry, exact_macs
from ridgefill.fill import Predict, predictor, run_late
from ridgefill.maps import RidgeMaps
from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache
from ridgefill.models.load import Loaded
from ridgefill.passes import ExactPass
from ridgefill.rows import plan_macs, plan_rows
from ridgefill.settings import Experiment


@dataclass(frozen=True)
class Setup:
    """What every suite needs: a model, arms and their maps. tail, window: counts of tokens."""

    loaded: Loaded
    arms: Sequence[Arm]
    maps: Mapping[int, Predict]
    geometry: Geometry
    tail: int
    window: int


@dataclass(frozen=True)
class ArmRun:
    """What one arm did with one prompt.

    hidden: last layer's output, ``[1, R, hidden]``, ending with the prompt's last row and any continuation.
    macs: multiply-accumulates of the prefill by the cost model. seconds: lower layers, late layers.
    """

    arm: Arm
    cache: RowCache
    hidden: Tensor
    tail: int
    filled_rows: int
    exact_rows: int
    macs: int
    seconds: tuple[float, float]


def experiment_arms(experiment: Experiment, layers: int) -> list[Arm]:
    """The experiment's arms at its split, then the split curve's at the other splits; each arm once."""
    wanted = [(name, experiment.split) for name in experiment.arms]
    wanted += [(name, split) for split in experiment.curve.splits for name in experiment.curve.arms]
    arms: dict[str, Arm] = {}
    for name, split in wanted:
        arm = make_arm(
            name,
            layers=layers,
            split=split,
            tail=experiment.tail,
            rows_share=experiment.rows_share,
            split_layer=experiment.split_layer,
        )
        arms.setdefault(arm.key, arm)
    return list(arms.values())


def ready_maps(maps: Mapping[int, RidgeMaps], adapter: Adapter) -> dict[int, Predict]:
    """Predictions by split, the maps brought to the model's type and device."""
    return {split: fitted.to(adapter.dtype, adapter.device).predict for split, fitted in maps.items()}


def kept_layers(arms: Sequence[Arm]) -> tuple[int, ...]:
    """Layers whose inputs the exact pass must keep: every arm's split."""
    return tuple(sorted({arm.split for arm in arms if arm.split is not None}))


def run_arms(
    adapter: Adapter,
    exact: ExactPass,
    arms: Sequence[Arm],
    maps: Mapping[int, Predict],
    geometry: Geometry,
    *,
    seed: int,
    tokens: int,
) -> Iterator[ArmRun]:
    """Run each arm on the first ``tokens`` rows of ``exact``; rows after them are a continuation, run in full.

    ``seed`` is the sample's own (63 bits); arms that draw random rows share it, so they share the rows.
    """
    full = exact_macs(geometry, tokens)
    for arm in arms:
        if arm.split is None:
            hidden = exact.hidden[:, tokens - 1 :]
            yield ArmRun(arm, exact.cache, hidden, tokens, 0, 0, full, (exact.clock[-1], 0.0))
            continue
        lower = exact.lower(arm.split, tokens)
        plan = plan_rows(arm, adapter, lower, geometry, seed)
        done = run_late(adapter, lower, plan, predictor(arm, maps, adapter), arm, continuation=exact.tokens - tokens)
        yield ArmRun(
            arm,
            done.cache,
            done.hidden[:, -(exact.tokens - tokens + 1) :],
            plan.tail,
            int(plan.filled.numel()),
            len(plan.selected),
            plan_macs(arm, plan, tokens, geometry),
            (lower.seconds, done.seconds),
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
