"""The stratified BCa bootstrap one resample and one item at a time, in plain Python, from given counts."""

import math
from statistics import NormalDist, mean

NORMAL = NormalDist()


def average(columns):
    """The statistic of an arm or a difference: the mean of its only column."""
    return mean(columns[0])


def share(columns):
    """The statistic of a splice: 1 minus the mean of what is left over the mean of the whole; None for no whole."""
    left, whole = columns
    return 1.0 - mean(left) / mean(whole) if mean(whole) > 1e-12 else None


def resampled(counts, columns, statistic):
    """The statistic of every resample: each item written out as often as its count says."""
    found = []
    for row in counts:
        drawn = [[value for value, times in zip(column, row, strict=True) for _ in range(times)] for column in columns]
        found.append(statistic(drawn))
    return found


def recentred(column, strata):
    """Every stratum moved so that its mean is the mean of all."""
    means = {key: mean(v for v, k in zip(column, strata, strict=True) if k == key) for key in set(strata)}
    return [value - means[key] + mean(column) for value, key in zip(column, strata, strict=True)]


def acceleration(columns, strata, statistic):
    """Efron's a from leaving out one recentred item at a time."""
    level = [recentred(column, strata) for column in columns]
    without = [statistic([column[:i] + column[i + 1 :] for column in level]) for i in range(len(strata))]
    away = [mean(without) - value for value in without]
    return sum(u**3 for u in away) / (6.0 * sum(u**2 for u in away) ** 1.5)


def quantile(values, level):
    """Linear interpolation between the sorted values."""
    ordered = sorted(values)
    place = level * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def percentile(counts, columns, statistic, levels):
    """Quantiles of the bootstrap distribution as they are."""
    found = resampled(counts, columns, statistic)
    return [quantile(found, level) for level in levels]


def bca(counts, columns, strata, statistic, levels):
    """Quantiles at Efron's corrected levels, and how many resamples had no value and were left out."""
    found = [value for value in resampled(counts, columns, statistic) if value is not None]
    estimate = statistic(columns)
    equal = [math.isclose(value, estimate, rel_tol=1e-9, abs_tol=1e-9) for value in found]
    below = sum(0.5 if same else float(value < estimate) for value, same in zip(found, equal, strict=True))
    bias = NORMAL.inv_cdf(min(max(below / len(found), 0.5 / len(found)), 1 - 0.5 / len(found)))
    a = acceleration(columns, strata, statistic)
    ends = []
    for level in levels:
        z = bias + NORMAL.inv_cdf(level)
        ends.append(quantile(found, NORMAL.cdf(bias + z / (1 - a * z))))
    return ends, len(counts) - len(found)
