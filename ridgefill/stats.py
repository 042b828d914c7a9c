"""Paired intervals, non-inferiority bounds and the sign test (paper section 3.4).

Everything is a mean of items: samples for accuracies, documents for losses, each weighted equally.
Intervals are bias-corrected and accelerated bootstrap intervals (Efron 1987) that resample items within
strata (tasks and lengths, or domains), so each resample keeps the mix of strata.

The random numbers are fixed by ``seed`` and by nothing else: ``numpy.random.default_rng(seed)`` draws, for
every stratum in sorted order, ``integers(0, n_s, size=(resamples, n_s))``. Two contrasts over the same
items therefore see the same resamples.

Sums of doubles depend on their order in the last bits. Values enter rounded to ``VALUE_DECIMALS`` and
results leave rounded to ``RESULT_DECIMALS``, so that no printed digit depends on such an order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ridgefill.errors import NumericsError

Floats = NDArray[np.float64]
Strata = Sequence[Any] | None

VALUE_DECIMALS = 12
RESULT_DECIMALS = 10
TIE_TOLERANCE = 1e-10
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


def paired_contrast(
    a: ArrayLike, b: ArrayLike, strata: Strata = None, resamples: int = 5000, seed: int = 0
) -> Contrast:
    """Mean of ``a - b`` over paired items, with its BCa interval.

    a, b: one value per item, same items in the same order. strata: one key per item, of any type that
    sorts; None puts all items in one stratum. Raises NumericsError for unequal lengths, no items, NaN.
    """
    return mean_interval(_differences(a, b), strata, resamples, seed)


def mean_interval(values: ArrayLike, strata: Strata = None, resamples: int = 5000, seed: int = 0) -> Contrast:
    """Mean of one arm's values with its BCa interval; arguments and errors as in paired_contrast."""
    items = _checked(values, "values")
    estimate = _mean(items)
    bounds = _bca(items, strata, resamples, seed, levels=(0.025, 0.975))
    if bounds is None:
        return Contrast(estimate, estimate, estimate, items.size, "constant")
    return Contrast(estimate, bounds[0], bounds[1], items.size, "ok")


def lower_bound(
    a: ArrayLike,
    b: ArrayLike,
    strata: Strata = None,
    resamples: int = 5000,
    seed: int = 0,
    *,
    accuracy: bool = False,
) -> float:
    """One-sided 95 % lower bound of the mean of ``a - b``, for non-inferiority against a fixed margin.

    With ``accuracy`` the values are points (0 to 100) and the bound is the lower of the bootstrap's and
    minus the binomial floor: ``n`` right answers out of ``n`` still allow that many points of failures.
    """
    items = _differences(a, b)
    bounds = _bca(items, strata, resamples, seed, levels=(0.05,))
    bound = _mean(items) if bounds is None else bounds[0]
    return min(bound, -binomial_floor(items.size)) if accuracy else bound


def binomial_floor(n: int) -> float:
    """Points (0 to 100) of failure rate that ``n`` samples without a failure leave open at 95 %."""
    if n < 1:
        raise NumericsError(f"the binomial floor was asked for n = {n}; expected at least one sample")
    return float(100.0 * (1.0 - 0.05 ** (1.0 / n)))


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p-value of ``wins`` against ``losses`` discordant pairs; ties are left out before."""
    if wins < 0 or losses < 0:
        raise NumericsError(f"the sign test was given {wins} wins and {losses} losses; expected counts from 0")
    pairs = wins + losses
    tail = sum(math.comb(pairs, k) for k in range(min(wins, losses) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**pairs)))


@lru_cache(maxsize=64)
def count_matrix(strata: tuple[Any, ...], resamples: int, seed: int) -> NDArray[np.uint32]:
    """How often each resample holds each item: ``[resamples, len(strata)]``, read-only.

    Every row sums to the stratum's size over each stratum. Cached: all contrasts of a set share it.
    """
    if resamples < 1:
        raise NumericsError(f"{resamples} bootstrap resamples were asked for; expected at least 1")
    rng = np.random.default_rng(seed)
    counts = np.zeros((resamples, len(strata)), dtype=np.uint32)
    offsets = np.arange(resamples)[:, np.newaxis]
    for members in _members(strata):
        size = members.size
        drawn = rng.integers(0, size, size=(resamples, size)) + offsets * size
        tally = np.bincount(drawn.ravel(), minlength=resamples * size)
        counts[:, members] = tally.reshape(resamples, size)
    counts.setflags(write=False)
    return counts


def _bca(
    items: Floats, strata: Strata, resamples: int, seed: int, *, levels: tuple[float, ...]
) -> tuple[float, ...] | None:
    """The bootstrap mean's BCa quantiles at ``levels``; None when no stratum varies."""
    keys = _keys(strata, items.size)
    spread = _deviations(items, keys)
    if not spread.any():
        return None
    means = count_matrix(keys, resamples, seed).astype(np.float64) @ items / items.size
    shift = means - math.fsum(items) / items.size
    tie = TIE_TOLERANCE * float(np.abs(items).max())
    below = (np.count_nonzero(shift < -tie) + 0.5 * np.count_nonzero(np.abs(shift) <= tie)) / resamples
    half = 0.5 / resamples
    bias = _NORMAL.inv_cdf(min(max(below, half), 1.0 - half))
    acceleration = _acceleration(spread)
    adjusted = [_adjusted(level, bias, acceleration) for level in levels]
    return tuple(round(float(value), RESULT_DECIMALS) for value in np.quantile(means, adjusted))


def _adjusted(level: float, bias: float, acceleration: float) -> float:
    """Efron's level to read from the bootstrap distribution instead of ``level``."""
    shifted = bias + _NORMAL.inv_cdf(level)
    scale = 1.0 - acceleration * shifted
    if scale <= 0.0:
        return 1.0 if shifted > 0.0 else 0.0
    return _NORMAL.cdf(bias + shifted / scale)


def _acceleration(spread: Floats) -> float:
    """Closed form for a mean: the skewness of the within-stratum deviations, over six."""
    scaled = spread / np.abs(spread).max()
    cubes = math.fsum(scaled**3)
    squares = math.fsum(scaled**2)
    return float(cubes / (6.0 * squares**1.5))


def _deviations(items: Floats, keys: tuple[Any, ...]) -> Floats:
    """Each item minus its stratum's mean; exactly zero where the stratum is constant."""
    spread = np.zeros_like(items)
    for members in _members(keys):
        group = items[members]
        if group.min() < group.max():
            spread[members] = group - math.fsum(group) / group.size
    return spread


def _members(keys: tuple[Any, ...]) -> list[NDArray[np.intp]]:
    """Positions of every stratum's items, strata in sorted order."""
    where: dict[Any, list[int]] = {}
    for index, key in enumerate(keys):
        where.setdefault(key, []).append(index)
    return [np.array(where[key], dtype=np.intp) for key in sorted(where)]


def _mean(items: Floats) -> float:
    return round(math.fsum(items) / items.size, RESULT_DECIMALS)


def _keys(strata: Strata, n: int) -> tuple[Any, ...]:
    if strata is None:
        return (0,) * n
    keys = tuple(strata)
    if len(keys) != n:
        raise NumericsError(f"{len(keys)} strata were given for {n} items; expected one per item")
    return keys


def _differences(a: ArrayLike, b: ArrayLike) -> Floats:
    left, right = _checked(a, "first arm"), _checked(b, "second arm")
    if left.size != right.size:
        raise NumericsError(f"arms of {left.size} and {right.size} items cannot be paired; expected the same items")
    return np.round(left - right, VALUE_DECIMALS)


def _checked(values: ArrayLike, what: str) -> Floats:
    items = np.asarray(values, dtype=np.float64)
    if items.ndim != 1 or items.size == 0:
        raise NumericsError(f"{what}: found shape {list(items.shape)}, expected a list of at least one number")
    bad = int(np.count_nonzero(~np.isfinite(items)))
    if bad:
        raise NumericsError(f"{what}: {bad} of {items.size} values are NaN or infinite; leave such items out first")
    return np.round(items, VALUE_DECIMALS)
