"""Means and paired differences with their bootstrap intervals, one at a time or many over the same items."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ridgefill.errors import NumericsError
from ridgefill.stats.resampling import (
    RESAMPLES,
    RESULT_DECIMALS,
    TIE_TOLERANCE,
    Floats,
    Strata,
    checked,
    checked_rows,
    deviations,
    differences,
    groups_of,
    keys_of,
    mean,
    resampled_means,
)

Method = Literal["bca", "percentile"]
TWO_SIDED = (0.025, 0.975)
_NORMAL = NormalDist()


@dataclass(frozen=True)
class Contrast:
    """A mean with its 95 % interval, in the units of the values; ``n`` items.

    ``status`` is ``"ok"``, or ``"constant"`` when no stratum varies: the interval then has zero width
    because resampling cannot move the mean, not because the mean is known exactly.
    """

    estimate: float
    ci_low: float
    ci_high: float
    n: int
    status: Literal["ok", "constant"]


def contrasts(
    values: ArrayLike, strata: Strata = None, resamples: int = RESAMPLES, seed: int = 0, *, method: Method = "bca"
) -> tuple[Contrast, ...]:
    """The mean of each row of ``values`` ``[k, n]`` with its 95 % interval, all from the same resamples.

    values: k contrasts of n items each, in the same order. strata: one key per item, of any type that sorts; None
    puts all items in one stratum. method: ``bca``, or ``percentile`` (Table 7: LongBench v2). Takes
    ``8 k resamples`` bytes. Raises NumericsError for no items, NaN or infinity.
    """
    items = checked_rows(values, "values")
    found = []
    for row, ends in zip(items, interval_ends(items, strata, resamples, seed, TWO_SIDED, method), strict=True):
        estimate = mean(row)
        low, high = ends or (estimate, estimate)
        found.append(Contrast(estimate, low, high, row.size, "ok" if ends else "constant"))
    return tuple(found)


def paired_contrast(
    a: ArrayLike,
    b: ArrayLike,
    strata: Strata = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    method: Method = "bca",
) -> Contrast:
    """Mean of ``a - b`` over paired items, with its interval; arguments and errors as in :func:`contrasts`.

    a, b: one value per item, same items in the same order. Raises NumericsError also for unequal lengths.
    """
    return contrasts(differences(a, b)[np.newaxis], strata, resamples, seed, method=method)[0]


def mean_interval(
    values: ArrayLike, strata: Strata = None, resamples: int = RESAMPLES, seed: int = 0, *, method: Method = "bca"
) -> Contrast:
    """Mean of one arm's values ``[n]`` with its interval; arguments and errors as in :func:`contrasts`."""
    return contrasts(checked(values, "values")[np.newaxis], strata, resamples, seed, method=method)[0]


def interval_ends(
    items: Floats, strata: Strata, resamples: int, seed: int, levels: Sequence[float], method: Method = "bca"
) -> list[tuple[float, ...] | None]:
    """The bootstrap mean's quantiles at ``levels`` for each row of checked items ``[k, n]``.

    None for a row in which no stratum varies. NumericsError for a method that is not known.
    """
    if method not in ("bca", "percentile"):
        raise NumericsError(f"an interval by {method!r} was asked for; expected 'bca' or 'percentile'")
    keys = keys_of(strata, items.shape[1])
    groups = groups_of(keys)
    spreads = [deviations(row, groups) for row in items]
    varied = [place for place, spread in enumerate(spreads) if spread.any()]
    ends: list[tuple[float, ...] | None] = [None] * len(items)
    if not varied:
        return ends
    for place, means in zip(varied, resampled_means(items[varied], keys, resamples, seed), strict=True):
        row = items[place]
        at = levels
        if method == "bca":
            tie = TIE_TOLERANCE * float(np.abs(row).max())
            at = bca_levels(means, math.fsum(row) / row.size, tie, acceleration(spreads[place]), levels)
        ends[place] = quantiles(means, at)
    return ends


def bca_levels(
    resampled: Floats, estimate: float, tie: float, accelerated: float, levels: Sequence[float]
) -> list[float]:
    """Efron's levels: where to read the bootstrap distribution ``[resamples]`` instead of at ``levels``.

    A resampled value within ``tie`` of the estimate counts as half below it. ``accelerated`` is the acceleration.
    """
    shift = resampled - estimate
    size = resampled.size
    below = (np.count_nonzero(shift < -tie) + 0.5 * np.count_nonzero(np.abs(shift) <= tie)) / size
    half = 0.5 / size
    bias = _NORMAL.inv_cdf(min(max(below, half), 1.0 - half))
    return [_adjusted(level, bias, accelerated) for level in levels]


def quantiles(resampled: Floats, levels: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of the bootstrap distribution, to the decimals that results keep."""
    return tuple(round(float(value), RESULT_DECIMALS) for value in np.quantile(resampled, levels))


def acceleration(influence: Floats) -> float:
    """The skewness of the items' influences ``[n]`` over six; for a mean these are the deviations within strata."""
    scaled = influence / np.abs(influence).max()
    cubes = math.fsum(scaled**3)
    squares = math.fsum(scaled**2)
    return float(cubes / (6.0 * squares**1.5))


def _adjusted(level: float, bias: float, accelerated: float) -> float:
    shifted = bias + _NORMAL.inv_cdf(level)
    scale = 1.0 - accelerated * shifted
    if scale <= 0.0:
        return 1.0 if shifted > 0.0 else 0.0
    return _NORMAL.cdf(bias + shifted / scale)
