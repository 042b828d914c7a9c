"""Fitting maps from captured activations: what a grid of penalties costs beside one, and scikit-learn's Ridge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from ridgefill.bench.row import Row, alternate, ratio_of
from ridgefill.maps import RidgeMaps
from ridgefill.moments import Moments, stream_moments
from ridgefill.ridge import factorise, solve

MOST_FOR_A_GRID = 1.5
LEAST_SPEEDUP = 5.0
SAME = 1e-6
"""Largest difference from scikit-learn's weights and offsets that is the same answer, relative to the largest one."""


@dataclass(frozen=True)
class FitSettings:
    """Shapes of a fit, those of SmolLM2 at split 19. rows: calibration rows, in chunks of 1,024. lams: the grid."""

    repeats: int = 5
    rows: int = 8192
    hidden: int = 576
    layers: int = 30
    split: int = 19
    lams: Sequence[float] = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
    lam: float = 0.03


def rows(settings: FitSettings) -> Iterator[Row]:
    """One row for the grid, one for scikit-learn."""
    inputs = _inputs(settings)
    yield _grid(settings, inputs)
    yield _sklearn(settings, inputs)


def _inputs(settings: FitSettings) -> dict[int, Tensor]:
    """Inputs of late layers, ``[rows, hidden]`` fp32: channels of unlike spread, layers that depend on the first."""
    generator = torch.Generator().manual_seed(0)
    size = (settings.rows, settings.hidden)
    inputs = {settings.split: torch.randn(size, generator=generator) * torch.logspace(-1, 1, settings.hidden) + 1.0}
    for layer in range(settings.split + 1, settings.layers):
        mix = torch.randn(settings.hidden, settings.hidden, generator=generator) * settings.hidden**-0.5
        inputs[layer] = inputs[settings.split] @ mix + torch.randn(size, generator=generator)
    return inputs


def _moments(settings: FitSettings, inputs: dict[int, Tensor]) -> Moments:
    cuts = [slice(begin, begin + 1024) for begin in range(0, settings.rows, 1024)]
    chunks = (({layer: x[cut] for layer, x in inputs.items()}, None) for cut in cuts)
    return stream_moments(chunks, (settings.split,), settings.layers)


def _grid(settings: FitSettings, inputs: dict[int, Tensor]) -> Row:
    moments = _moments(settings, inputs)

    def fit(lams: Sequence[float]) -> list[RidgeMaps]:
        factors = factorise(moments, settings.split)
        return [solve(factors, lam) for lam in lams]

    pairs = alternate(
        lambda _: fit(settings.lams), lambda _: fit([settings.lam]), settings.repeats, perf_counter, "grid"
    )
    found = ratio_of(pairs)
    return Row(
        "fit_grid",
        f"fitting all {settings.layers - settings.split} late layers from moments for {len(settings.lams)} values of "
        f"lam over fitting them for one ({found.seconds[1] * 1e3:.0f} ms), seconds",
        found.value,
        1.0,
        MOST_FOR_A_GRID,
        "less",
        "one product of width x width x all late inputs for every lam, in fp32; the eigenvectors are shared",
        found.low,
        found.high,
    )


def _sklearn(settings: FitSettings, inputs: dict[int, Tensor]) -> Row:
    count = settings.layers - settings.split - 1
    what = (
        f"a layer's map from {settings.rows} rows: times faster than scikit-learn's Ridge in fp64, which it must equal "
        f"to {SAME:g}; ours is the fit of {count} layers over {count}, products of activations included"
    )
    try:
        from sklearn.linear_model import Ridge
    except ImportError:
        reason = "not measured: scikit-learn is not installed; pip install '.[bench]'"
        return Row("fit_sklearn", what, nan, 1.0, LEAST_SPEEDUP, limited=reason)
    state, target = (inputs[layer].double().numpy() for layer in (settings.split, settings.layers - 1))
    alpha = factorise(_moments(settings, inputs), settings.split).alpha(settings.lam)

    def theirs(_: int) -> Any:
        return Ridge(alpha=alpha).fit(state, target)

    def ours(_: int) -> RidgeMaps:
        return solve(factorise(_moments(settings, inputs), settings.split), settings.lam, mapped_split_layer=False)

    found = ratio_of(alternate(theirs, ours, settings.repeats, perf_counter, "sklearn"))
    off = _difference(ours(0), settings.layers - 1, theirs(0))
    if off > SAME:
        reason = f"not the same answer: weights or offsets differ by {off:.1e}, relative to the largest"
        return Row("fit_sklearn", what, nan, 1.0, LEAST_SPEEDUP, limited=reason)
    limited = f"the products of activations, in fp32; the answers differ by {off:.1e}"
    low, high = found.low * count, found.high * count
    return Row("fit_sklearn", what, found.value * count, 1.0, LEAST_SPEEDUP, "more", limited, low, high)


def _difference(maps: RidgeMaps, layer: int, theirs: Any) -> float:
    """Largest difference of weights or offsets, each relative to the largest of its kind."""
    pairs = ((maps.weights[layer], theirs.coef_), (maps.biases[layer], theirs.intercept_))
    apart = []
    for own, other in pairs:
        expected = torch.from_numpy(other)
        apart.append(float((own.double() - expected).abs().max() / expected.abs().max()))
    return max(apart)
