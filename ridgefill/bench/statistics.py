"""Many intervals at once beside scipy's bootstrap of one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import nan
from time import perf_counter

import numpy as np

from ridgefill.bench.row import Row, alternate, ratio_of
from ridgefill.stats import RESAMPLES, contrasts, count_matrix

LEAST_SPEEDUP = 50.0


@dataclass(frozen=True)
class BootstrapSettings:
    """Numbers of contrasts, of items each has, of their strata, and of resamples: those of a full report."""

    repeats: int = 7
    contrasts: int = 200
    items: int = 216
    strata: int = 12
    resamples: int = RESAMPLES


def rows(settings: BootstrapSettings) -> Iterator[Row]:
    """One row: BCa intervals of all contrasts of a set, cold, beside scipy's of one of them times their number."""
    row = partial(
        Row,
        "bootstrap",
        f"{settings.contrasts} contrasts of {settings.items} items in {settings.strata} strata, {settings.resamples} "
        f"resamples drawn anew: times faster than scipy's BCa of one contrast, without strata, times "
        f"{settings.contrasts}",
        reference=1.0,
        target=LEAST_SPEEDUP,
    )
    try:
        from scipy import stats as scipy_stats
    except ImportError:
        yield row(value=nan, limited="not measured: scipy is not installed; pip install '.[bench]'")
        return
    rng = np.random.default_rng(0)
    size = (settings.contrasts, settings.items)
    # Differences of losses: skewed both ways, no two alike.
    values = rng.exponential(size=size) - rng.exponential(size=size)
    strata = [f"stratum {item % settings.strata}" for item in range(settings.items)]

    def theirs(number: int) -> object:
        return scipy_stats.bootstrap(
            (values[number],), np.mean, n_resamples=settings.resamples, method="BCa", rng=np.random.default_rng(number)
        )

    def ours(number: int) -> object:
        count_matrix.cache_clear()
        return contrasts(values, strata, settings.resamples, number)

    found = ratio_of(alternate(theirs, ours, settings.repeats, perf_counter, "bootstrap"))
    yield row(
        value=found.value * settings.contrasts,
        limited="drawing the resamples, one exact matrix product in two parts, and sorting",
        low=found.low * settings.contrasts,
        high=found.high * settings.contrasts,
    )
