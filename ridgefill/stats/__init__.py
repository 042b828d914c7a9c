"""Paired intervals, shares, non-inferiority bounds and tests (paper section 3.4, EVALUATION section 2).

Everything is a mean of items, or a ratio of two such means: samples for accuracies, documents for losses,
each weighted equally. Intervals are bias-corrected and accelerated bootstrap intervals (Efron 1987) that
resample items within strata (tasks and lengths, or domains), so each resample keeps the mix of strata.

The random numbers are fixed by ``seed`` and by nothing else: ``numpy.random.default_rng(seed)`` draws, for
every stratum in sorted order, ``integers(0, n_s, size=(resamples, n_s))``. Contrasts over the same items
therefore see the same resamples, and one contrast alone gives what it gives among many, to the last bit.

Values enter rounded to ``VALUE_DECIMALS``, resampled sums are exact, and results leave rounded to
``RESULT_DECIMALS``, so that no printed digit depends on the order of a sum.

How often an interval holds the truth depends on how many skewed items there are. Of 4,000 intervals of exponential
items (skewness 2) 89 % did at n = 12, 91 % at 20, 93 % at 40, 94 % from 80 on and 95 % at 500; in four strata of
unlike spread 80 % at 12, 90 % at 40, 94 % at 120 (tests/stats/test_coverage.py): a dozen documents claim too much.
"""

from __future__ import annotations

from ridgefill.stats.bounds import (
    NonInferiority,
    SignTest,
    binomial_floor,
    least_samples,
    lower_bound,
    non_inferiority,
    paired_sign_test,
    sign_test,
)
from ridgefill.stats.intervals import Contrast, contrasts, mean_interval, paired_contrast
from ridgefill.stats.perplexity import perplexity_gap
from ridgefill.stats.ratios import Share, share_interval, share_intervals
from ridgefill.stats.resampling import ITEM_RESAMPLES, RESAMPLES, RESULT_DECIMALS, VALUE_DECIMALS, count_matrix
from ridgefill.stats.tails import Tail, tail

__all__ = [
    "ITEM_RESAMPLES",
    "RESAMPLES",
    "RESULT_DECIMALS",
    "VALUE_DECIMALS",
    "Contrast",
    "NonInferiority",
    "Share",
    "SignTest",
    "Tail",
    "binomial_floor",
    "contrasts",
    "count_matrix",
    "least_samples",
    "lower_bound",
    "mean_interval",
    "non_inferiority",
    "paired_contrast",
    "paired_sign_test",
    "perplexity_gap",
    "share_interval",
    "share_intervals",
    "sign_test",
    "tail",
]
