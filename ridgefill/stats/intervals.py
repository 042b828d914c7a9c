"""Means and paired differences with their bootstrap intervals, one at a time or many over the same items."""

from __future__ import annotations

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
    spreads = deviations(items, groups_of(keys))
    (varied,) = np.nonzero(spreads.any(axis=1))
    ends: list[tuple[float, ...] | None] = [None] * len(items)
    if not varied.size:
        return ends
    resampled = resampled_means(items[varied], keys, resamples, seed)
    resampled.sort(axis=1)
    for place, means in zip(varied.tolist(), resampled, strict=True):
        row = items[place]
        at = levels
        if method == "bca":
            tie = TIE_TOLERANCE * float(np.abs(row).max())
            at = bca_levels(means, float(row.mean()), tie, acceleration(spreads[place]), levels)
        ends[place] = quantiles(means, at)
    return ends


def bca_levels(
    ordered: Floats, estimate: float, tie: float, accelerated: float, levels: Sequence[float]
) -> list[float]:
    """Efron's levels: where to read the sorted bootstrap distribution ``[resamples]`` instead of at ``levels``.

    A resampled value within ``tie`` of the estimate counts as half below it. ``accelerated`` is the acceleration.
    """
    shift = ordered - estimate
    less, not_more = shift.searchsorted(-tie, "left"), shift.searchsorted(tie, "right")
    below = 0.5 * float(less + not_more) / shift.size
    half = 0.5 / shift.size
    bias = _NORMAL.inv_cdf(min(max(below, half), 1.0 - half))
    return [_adjusted(level, bias, accelerated) for level in levels]


def quantiles(ordered: Floats, levels: Sequence[float]) -> tuple[float, ...]:
    """Quantiles of the sorted bootstrap distribution, to the decimals that results keep."""
    return tuple(round(_between(ordered, level * (ordered.size - 1)), RESULT_DECIMALS) for level in levels)


def _between(ordered: Floats, place: float) -> float:
    """The value at a place that may lie between two, in proportion; reckoned from the nearer, as numpy does."""
    below = min(int(place), ordered.size - 2) if ordered.size > 1 else 0
    low, high = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
    part = place - below
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1.0 - part)


def acceleration(influence: Floats) -> float:
    """The skewness of the items' influences ``[n]`` over six; for a mean these are the deviations within strata."""
    scaled = influence / np.abs(influence).max()
    squared = scaled * scaled
    return float((squared * scaled).sum() / (6.0 * squared.sum() ** 1.5))


def _adjusted(level: float, bias: float, accelerated: float) -> float:
    shifted = bias + _NORMAL.inv_cdf(level)
    scale = 1.0 - accelerated * shifted
    if scale <= 0.0:
        return 1.0 if shifted > 0.0 else 0.0
    return _NORMAL.cdf(bias + shifted / scale)
