"""What to print beside a mean that a few items may carry: the median, and the far end (EVALUATION section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ridgefill.stats.resampling import RESULT_DECIMALS, checked, mean


@dataclass(frozen=True)
class Tail:
    """Mean, median and 99th percentile of ``n`` items, in their units.

    heavy: the mean lies outside the quartiles, that is, at least three quarters of the items lie on one side of it.
    An exponential distribution is not heavy by this rule; a log-normal one is from sigma = 1.35 on.
    """

    mean: float
    median: float
    p99: float
    n: int
    heavy: bool


def tail(values: ArrayLike) -> Tail:
    """The mean of items ``[n]`` and its companions (linear interpolation); NumericsError for NaN or no items."""
    items = checked(values, "values")
    lower, median, upper, far = (
        round(float(value), RESULT_DECIMALS) for value in np.quantile(items, (0.25, 0.5, 0.75, 0.99))
    )
    centre = mean(items)
    return Tail(centre, median, far, items.size, not lower <= centre <= upper)
