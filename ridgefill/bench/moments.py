"""The capture beside the work it cannot avoid: its products alone, and the model's forward pass alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from time import perf_counter

import torch
from torch import Tensor

from ridgefill.bench.prompts import random_ids
from ridgefill.bench.row import Ratio, Row, alternate, ratio_of
from ridgefill.capture import capture
from ridgefill.models.load import load_any
from ridgefill.moments import stream_moments
from ridgefill.passes import run_exact

LEAST_SHARE = 0.7
MOST_OVERHEAD = 1.1
SPLITS = ((17, 19), (19,))


@dataclass(frozen=True)
class CaptureSettings:
    """Shapes of a capture, those of SmolLM2 in the embedded experiment. chunks: of ``rows`` each, in one repeat.

    model: folder of a model to capture; None or a folder that is not there leaves that row without a value.
    """

    repeats: int = 5
    rows: int = 1024
    chunks: int = 16
    hidden: int = 576
    layers: int = 30
    splits: Sequence[tuple[int, ...]] = SPLITS
    model: Path | None = None
    pieces: int = 4


def rows(settings: CaptureSettings) -> Iterator[Row]:
    """A row of the moments for each choice of splits, and one of a whole capture."""
    inputs = _inputs(settings)
    for splits in settings.splits:
        yield _products(settings, inputs, splits)
    yield _overhead(settings)


def _inputs(settings: CaptureSettings) -> list[dict[int, Tensor]]:
    """Block inputs of four chunks: more than a processor's cache holds, as a model's would be."""
    generator = torch.Generator().manual_seed(0)
    late = range(min(map(min, settings.splits)), settings.layers)
    size = (settings.rows, settings.hidden)
    return [{layer: torch.randn(size, generator=generator) + 3.0 for layer in late} for _ in range(4)]


def _products(settings: CaptureSettings, inputs: Sequence[dict[int, Tensor]], splits: tuple[int, ...]) -> Row:
    later = {split: torch.cat([inputs[0][layer] for layer in range(split + 1, settings.layers)], 1) for split in splits}
    states = {split: inputs[0][split] for split in splits}
    made = {split: states[split].T @ later[split] for split in splits}

    def multiply(_: int) -> None:
        for _ in range(settings.chunks):
            for split in splits:
                torch.mm(states[split].T, later[split], out=made[split])

    def reduce(_: int) -> object:
        chunks = ((inputs[place % len(inputs)], None) for place in range(settings.chunks))
        return stream_moments(chunks, splits, settings.layers)

    found = ratio_of(alternate(multiply, reduce, settings.repeats, perf_counter, "moments"))
    # A capture multiplies the state with itself too, for the Gram matrix; both are rates of what each multiplies.
    blocks = [sum(settings.layers - split - less for split in splits) for less in (0, 1)]
    more = blocks[0] / blocks[1]
    rate = 2 * settings.rows * settings.hidden**2 * blocks[1] * settings.chunks / found.seconds[0] / 1e9
    return Row(
        "moments" if len(splits) > 1 else "moments_one_split",
        f"capture of splits {', '.join(map(str, splits))} without the forward pass, chunks of {settings.rows} rows: "
        f"share of the rate at which state.T @ later inputs runs alone ({rate:.0f} GFLOP/s)",
        found.value * more,
        1.0,
        LEAST_SHARE,
        limited="memory traffic: centring, squared deviations, and the fp64 totals",
        low=found.low * more,
        high=found.high * more,
    )


def _overhead(settings: CaptureSettings) -> Row:
    row = partial(
        Row,
        "capture_overhead",
        f"whole capture of splits {', '.join(map(str, settings.splits[0]))} over the forward pass alone, seconds",
        reference=1.0,
        target=MOST_OVERHEAD,
        better="less",
    )
    if settings.model is None or not settings.model.is_dir():
        return row(value=nan, limited=f"not measured: no model folder at {settings.model or 'models/'}; build it first")
    found = _captured(settings, settings.model)
    limited = f"arithmetic: each split multiplies its state with every later input ({found.seconds[1]:.1f} s without)"
    return row(value=found.value, limited=limited, low=found.low, high=found.high)


def _captured(settings: CaptureSettings, folder: Path) -> Ratio:
    adapter = load_any(str(folder), "float32").adapter

    def pieces(number: int) -> list[list[int]]:
        return [random_ids(f"{number} {piece}", settings.rows) for piece in range(settings.pieces)]

    def forward(number: int) -> None:
        with torch.inference_mode():
            for ids in pieces(number):
                run_exact(adapter, torch.tensor([ids]))

    def whole(number: int) -> object:
        return capture(adapter, pieces(number), settings.splits[0])

    return ratio_of(alternate(whole, forward, settings.repeats, perf_counter, "capture"))
