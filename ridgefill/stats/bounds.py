"""Non-inferiority against a margin fixed in advance, and the sign test (paper section 3.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ridgefill.errors import NumericsError
from ridgefill.stats.intervals import Method, interval_ends
from ridgefill.stats.resampling import RESAMPLES, Floats, Strata, differences, mean


@dataclass(frozen=True)
class NonInferiority:
    """Whether ``a - b`` is shown to lie above ``-margin``: both in the units of the values, ``n`` items.

    bound: the one-sided 95 % lower bound that decides. bootstrap_bound: the bootstrap's alone. floor: minus the
    binomial floor in points, None for values that are no accuracies. ``not_shown`` is not the opposite: it says
    that these items do not exclude a loss of ``margin``.
    """

    estimate: float
    bound: float
    bootstrap_bound: float
    floor: float | None
    margin: float
    n: int
    verdict: Literal["non_inferior", "not_shown"]


@dataclass(frozen=True)
class SignTest:
    """Paired items of which the first arm has the higher value, the lower, the same; exact two-sided p-value."""

    wins: int
    losses: int
    ties: int
    p_value: float


def lower_bound(
    a: ArrayLike,
    b: ArrayLike,
    strata: Strata = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    accuracy: bool = False,
    method: Method = "bca",
) -> float:
    """One-sided 95 % lower bound of the mean of ``a - b``, for non-inferiority against a fixed margin.

    With ``accuracy`` the values are points (0 to 100) and the bound is the lower of the bootstrap's and
    minus the binomial floor: ``n`` right answers out of ``n`` still allow that many points of failures. ``method`` is
    that of the interval whose lower end it would be.
    """
    items = differences(a, b)
    bound = _bootstrap_bound(items, strata, resamples, seed, method)
    return min(bound, -binomial_floor(items.size)) if accuracy else bound


def non_inferiority(
    a: ArrayLike,
    b: ArrayLike,
    margin: float,
    strata: Strata = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    accuracy: bool = True,
) -> NonInferiority:
    """Test ``a`` against ``b`` (higher is better, paired items ``[n]``) with a margin fixed in advance.

    The paper's margins are 2 points against exact and 3 against POP. ``accuracy`` as in :func:`lower_bound`.
    Raises NumericsError for a margin that is not positive and for items that cannot be paired.
    """
    if not (math.isfinite(margin) and margin > 0.0):
        raise NumericsError(f"a non-inferiority margin of {margin} was given; expected a positive number of points")
    items = differences(a, b)
    found = _bootstrap_bound(items, strata, resamples, seed)
    floor = -binomial_floor(items.size) if accuracy else None
    bound = found if floor is None else min(found, floor)
    verdict: Literal["non_inferior", "not_shown"] = "non_inferior" if bound > -margin else "not_shown"
    return NonInferiority(mean(items), bound, found, floor, margin, items.size, verdict)


def binomial_floor(n: int) -> float:
    """Points (0 to 100) of failure rate that ``n`` samples without a failure leave open at 95 %."""
    if n < 1:
        raise NumericsError(f"the binomial floor was asked for n = {n}; expected at least one sample")
    return float(100.0 * (1.0 - 0.05 ** (1.0 / n)))


def least_samples(margin: float) -> int:
    """Fewest samples whose binomial floor lies below ``margin`` points; with fewer nothing can be shown."""
    return math.floor(math.log(0.05) / math.log1p(-margin / 100.0)) + 1


def sign_test(wins: int, losses: int) -> float:
    """Exact two-sided p-value of ``wins`` against ``losses`` discordant pairs; ties are left out before."""
    if wins < 0 or losses < 0:
        raise NumericsError(f"the sign test was given {wins} wins and {losses} losses; expected counts from 0")
    pairs = wins + losses
    tail = sum(math.comb(pairs, k) for k in range(min(wins, losses) + 1))
    return min(1.0, float(Fraction(2 * tail, 2**pairs)))


def paired_sign_test(a: ArrayLike, b: ArrayLike) -> SignTest:
    """Count the discordant of paired items ``[n]`` and test them; errors as in ``paired_contrast``."""
    items = differences(a, b)
    wins, losses = int(np.count_nonzero(items > 0)), int(np.count_nonzero(items < 0))
    return SignTest(wins, losses, items.size - wins - losses, sign_test(wins, losses))


def _bootstrap_bound(items: Floats, strata: Strata, resamples: int, seed: int, method: Method = "bca") -> float:
    (ends,) = interval_ends(items[np.newaxis], strata, resamples, seed, levels=(0.05,), method=method)
    return mean(items) if ends is None else ends[0]
