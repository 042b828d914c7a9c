"""Shares ``1 - mean(left) / mean(whole)`` with intervals: loss removed by a splice, gap closed (paper section 6.6).

Loss removed: ``left`` are the spliced arm's losses above exact, ``whole`` the filled arm's. Gap closed: ``left``
is exact minus the spliced arm's score, ``whole`` exact minus the filled arm's. Items are documents or samples.

A resample whose mean of ``whole`` is not positive has no share: it is left out and counted. Two rules withhold an
interval, with the status ``too_few``: more than ``MOST_UNDEFINED`` of the resamples have no share, or fewer than
``fewest`` items have any ``whole`` at all (the paper calls 20 differing samples too few).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ridgefill.errors import NumericsError
from ridgefill.shares import loss_removed
from ridgefill.stats.intervals import TWO_SIDED, acceleration, bca_levels, quantiles
from ridgefill.stats.resampling import (
    RESAMPLES,
    RESULT_DECIMALS,
    TIE_TOLERANCE,
    Floats,
    Groups,
    Strata,
    checked,
    checked_rows,
    deviations,
    groups_of,
    keys_of,
    resampled_means,
)

# A fifth of the 2.5 % that lies beyond an end: more, and what is left out decides where the end is.
MOST_UNDEFINED = 0.005
# Samples on which exact and filled must differ before a gap closed has an interval.
FEWEST_DIFFERING = 21


@dataclass(frozen=True)
class Share:
    """A share of a mean that is gone, 1 for all of it, with its 95 % interval; ``n`` items.

    undefined: resamples without a share. status: ``ok``; ``constant`` (every item has the same share, zero width);
    ``too_few`` (a share without an interval); ``undefined`` (there is nothing to take a share of: all None).
    """

    estimate: float | None
    ci_low: float | None
    ci_high: float | None
    n: int
    undefined: int
    status: Literal["ok", "constant", "too_few", "undefined"]


def share_interval(
    left: ArrayLike,
    whole: ArrayLike,
    strata: Strata = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    fewest: int = 0,
) -> Share:
    """``1 - mean(left) / mean(whole)`` over paired items ``[n]``; as :func:`share_intervals` for a single left."""
    return share_intervals(checked(left, "left")[np.newaxis], whole, strata, resamples, seed, fewest=fewest)[0]


def share_intervals(
    left: ArrayLike,
    whole: ArrayLike,
    strata: Strata = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    *,
    fewest: int = 0,
) -> tuple[Share, ...]:
    """The share gone in each row of ``left`` ``[k, n]`` of the same ``whole`` ``[n]``, from the same resamples.

    Intervals are BCa; the acceleration leaves out one item at a time. strata and errors as in
    :func:`ridgefill.stats.contrasts`; fewest: items with a ``whole`` that an interval needs.
    """
    rows, base = checked_rows(left, "left"), checked(whole, "whole")
    if rows.shape[1] != base.size:
        raise NumericsError(f"{rows.shape[1]} items cannot be shares of {base.size}; expected the same items")
    keys, n = keys_of(strata, base.size), base.size
    total = math.fsum(base) / n
    nothing = TIE_TOLERANCE * float(np.abs(base).max())
    if total <= nothing:
        return tuple(Share(None, None, None, n, resamples, "undefined") for _ in rows)
    *tops, bottom = resampled_means(np.vstack([rows, base]), keys, resamples, seed)
    kept = bottom > nothing
    undefined = resamples - int(np.count_nonzero(kept))
    few = undefined > MOST_UNDEFINED * resamples or np.count_nonzero(base) < fewest
    groups = groups_of(keys)
    found = []
    for row, top in zip(rows, tops, strict=True):
        estimate = loss_removed(math.fsum(row) / n, total) or 0.0
        shares = np.sort(1.0 - top[kept] / bottom[kept])
        ends, status = ((None, None), "too_few") if few else _ends(row, base, groups, shares, estimate)
        found.append(Share(round(estimate, RESULT_DECIMALS), *ends, n, undefined, status))
    return tuple(found)


_Ends = tuple[tuple[float | None, float | None], Literal["ok", "constant", "too_few"]]


def _ends(row: Floats, base: Floats, groups: Groups, shares: Floats, estimate: float) -> _Ends:
    """The two ends and the status, of a share that may have an interval; ``shares`` of the resamples, sorted."""
    total = math.fsum(base) / base.size
    left, whole = deviations(np.vstack([row, base]), groups)
    reach = float(np.abs(row).max() + abs(1.0 - estimate) * np.abs(base).max())
    if np.abs(left - (1.0 - estimate) * whole).max() <= TIE_TOLERANCE * reach:
        rounded = round(estimate, RESULT_DECIMALS)
        return (rounded, rounded), "constant"
    # An item left out of its stratum moves each mean by its deviation over n - 1, as in one stratum of n.
    without = total - whole / (base.size - 1)
    if without.min() <= 0.0:
        return (None, None), "too_few"
    jackknife = 1.0 - (math.fsum(row) / row.size - left / (row.size - 1)) / without
    influence = math.fsum(jackknife) / jackknife.size - jackknife
    at = bca_levels(shares, estimate, TIE_TOLERANCE * reach / total, acceleration(influence), TWO_SIDED)
    low, high = quantiles(shares, at)
    return (low, high), "ok"
