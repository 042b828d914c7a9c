"""Many arms on one exact pass, beside what the cost model says that they add to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from time import perf_counter

import torch

from ridgefill.arms import ArmSettings, arm_table
from ridgefill.bench.prompts import random_ids
from ridgefill.bench.row import Row, alternate, ratio_of
from ridgefill.cost import Geometry, exact_macs, fill_parts, geometry_of
from ridgefill.cost.parts import LOWER
from ridgefill.evaluation.runs import ArmRun, Fitted, Setup, kept_layers, require_arms, run_arms
from ridgefill.map_options import PLAIN
from ridgefill.maps import RidgeMaps
from ridgefill.models.base import Adapter
from ridgefill.models.load import load_any
from ridgefill.models.sizes import sizes_of
from ridgefill.passes import run_exact
from ridgefill.rows import ranking_window
from ridgefill.selectors.context import Context

ARMS = ("no_fill", "identity", "ridgefill", "ridgefill_rows", "ridgefill_random_rows", "ridgefill_longer_tail")
WITHIN = 0.1


@dataclass(frozen=True)
class ArmsSettings:
    """Arms of one split on prompts of ``tokens``. model: folder of a model; without it the rows have no value."""

    model: Path
    repeats: int = 5
    tokens: int = 2048
    split: int = 19
    tail: int = 128
    window: int = 64


def rows(settings: ArmsSettings) -> Iterator[Row]:
    """Two rows, one for each end of what counts as a match: the same value, at most and at least."""
    what = (
        f"exact pass and {len(ARMS)} arms of split {settings.split} on one prompt of {settings.tokens} tokens over the "
        "exact pass alone: measured over predicted by multiply-accumulates"
    )
    above = partial(Row, "many_arms", what, reference=1.0, target=1.0 + WITHIN, better="less")
    below = partial(Row, "many_arms_least", what, reference=1.0, target=1.0 - WITHIN)
    if not settings.model.is_dir():
        reason = f"not measured: no model folder at {settings.model}; build it first"
        yield from (row(value=nan, limited=reason) for row in (above, below))
        return
    setup = _setup(settings)
    predicted = 0.0

    def exact_only(number: int) -> None:
        _run(setup, _prompt(settings, number), arms=False)

    def with_arms(number: int) -> None:
        nonlocal predicted
        done = _run(setup, _prompt(settings, number), arms=True)
        predicted = _predicted(setup.geometry, settings, done)

    found = ratio_of(alternate(with_arms, exact_only, settings.repeats, perf_counter, "arms"))
    limited = (
        f"measured {found.value:.2f}, predicted {predicted:.2f}, where all multiply-accumulates take the same time: "
        "those of attention and of few rows take longer"
    )
    ends = {"low": found.low / predicted, "high": found.high / predicted}
    for row in (above, below):
        yield row(value=found.value / predicted, limited=limited, **ends)


def _setup(settings: ArmsSettings) -> Setup:
    loaded = load_any(str(settings.model), "float32")
    adapter = loaded.adapter
    table = arm_table(ArmSettings(adapter.layers, settings.split, settings.tail, window=settings.window))
    geometry = geometry_of(sizes_of(loaded.network.config), str(adapter.fingerprint["family"]))
    maps = _any_maps(adapter, settings.split)
    setup = Setup(
        loaded,
        [table[name] for name in ARMS],
        Fitted({(settings.split, PLAIN): maps.predict}),
        geometry,
        settings.tail,
        settings.window,
    )
    require_arms(setup)
    return setup


def _any_maps(adapter: Adapter, split: int) -> RidgeMaps:
    """Maps that change nothing: what they hold makes no difference to how long they take."""
    late = range(split, adapter.layers)
    return RidgeMaps(
        split,
        {layer: torch.eye(adapter.hidden, adapter.width) for layer in late},
        {layer: torch.zeros(adapter.hidden) for layer in late},
    )


def _prompt(settings: ArmsSettings, number: int) -> tuple[int, ...]:
    return tuple(random_ids(f"arms {number}", settings.tokens))


def _run(setup: Setup, ids: tuple[int, ...], arms: bool) -> list[ArmRun]:
    window = ranking_window(setup.arms, len(ids), setup.window)
    with torch.inference_mode():
        exact = run_exact(setup.loaded.adapter, torch.tensor([ids]), keep=kept_layers(setup), window=window)
        return list(run_arms(setup, exact, Context(ids, 0), setup.arms)) if arms else []


def _predicted(geometry: Geometry, settings: ArmsSettings, done: list[ArmRun]) -> float:
    """The exact pass and every arm's late layers, in exact passes."""
    exact = exact_macs(geometry, settings.tokens)
    parts = fill_parts(geometry, tokens=settings.tokens, split=settings.split, tail=settings.tail)
    lower = sum(part.macs for part in parts if part.where == LOWER)
    return 1.0 + sum(one.macs.total - lower for one in done) / exact
