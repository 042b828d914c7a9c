"""The BCa interval a second time, written without :mod:`ridgefill.stats`.

It must reach the same numbers: the random draws are the specified ones (``default_rng(seed)``, strata in
sorted order, ``integers(0, n, (resamples, n))``). Everything else differs: means by gathering the drawn
items, levels by counting, quantiles by sorting, the normal distribution through ``erfc`` and bisection.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

# A resampled mean this close to the mean itself, relative to the largest item, counts as equal to it.
TIE = 1e-10


@lru_cache(maxsize=16)
def draws(sizes: tuple[int, ...], resamples: int, seed: int) -> tuple[np.ndarray, ...]:
    """Positions drawn within each stratum, ``[resamples, size]`` each."""
    rng = np.random.default_rng(seed)
    return tuple(rng.integers(0, size, size=(resamples, size)) for size in sizes)


def by_stratum(labels: Sequence[str], values: Sequence[float]) -> list[list[float]]:
    """Values of each stratum, strata in sorted order, items in the order given."""
    found: dict[str, list[float]] = {}
    for label, value in zip(labels, values, strict=True):
        found.setdefault(label, []).append(round(value, 12))
    return [found[label] for label in sorted(found)]


def bca(strata: Sequence[Sequence[float]], levels: Sequence[float], resamples: int, seed: int) -> list[float]:
    """Ends of the interval at ``levels``; all equal to the mean when no stratum varies."""
    items = [value for stratum in strata for value in stratum]
    mean = sum_exactly(items) / len(items)
    deviations = [value - sum_exactly(s) / len(s) for s in strata if max(s) > min(s) for value in s]
    if not deviations:
        return [mean for _ in levels]
    sizes = tuple(len(stratum) for stratum in strata)
    total = np.zeros(resamples)
    for stratum, drawn in zip(strata, draws(sizes, resamples, seed), strict=True):
        total += np.asarray(stratum)[drawn].sum(axis=1)
    means = sorted(float(value) / len(items) for value in total)
    near = TIE * max(abs(value) for value in items)
    return corrected(means, mean, near, deviations, levels)


def corrected(
    ordered: Sequence[float], estimate: float, near: float, moves: Sequence[float], levels: Sequence[float]
) -> list[float]:
    """Quantiles of the sorted resamples at Efron's levels; ``moves`` are what the items do to the estimate."""
    below = sum(1.0 if m < estimate - near else 0.5 if m <= estimate + near else 0.0 for m in ordered) / len(ordered)
    edge = 0.5 / len(ordered)
    bias = normal_quantile(min(max(below, edge), 1 - edge))
    skew = sum_exactly([d**3 for d in moves]) / (6 * sum_exactly([d * d for d in moves]) ** 1.5)
    ends = []
    for level in levels:
        z = bias + normal_quantile(level)
        moved = bias + z / (1 - skew * z) if skew * z < 1 else math.copysign(math.inf, z)
        ends.append(quantile(ordered, normal_share(moved)))
    return ends


def sum_exactly(values: Sequence[float]) -> float:
    """A sum whose result does not depend on the order of its terms."""
    return math.fsum(values)


def quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between the two neighbouring order statistics."""
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def normal_share(z: float) -> float:
    """Share of a standard normal below ``z``."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


@lru_cache(maxsize=1024)
def normal_quantile(share: float) -> float:
    """Inverse of :func:`normal_share` by bisection, to the last bits."""
    low, high = -40.0, 40.0
    while high - low > 1e-15 * max(1.0, abs(low)):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        if normal_share(middle) < share:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)
