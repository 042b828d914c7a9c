"""The percentile bootstrap a second time: the specified draws, and their quantiles as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgefill.recompute.bootstrap import draws, quantile, sum_exactly


def percentile(items: Sequence[float], levels: Sequence[float], resamples: int, seed: int) -> list[float]:
    """Ends at ``levels`` of the mean of ``items``, resampled as one stratum; the mean itself when all are equal."""
    if min(items) == max(items):
        return [sum_exactly(items) / len(items) for _ in levels]
    (drawn,) = draws((len(items),), resamples, seed)
    means = sorted(float(value) for value in np.asarray(items)[drawn].mean(axis=1))
    return [quantile(means, level) for level in levels]
