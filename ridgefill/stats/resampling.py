"""Stratified resamples as one matrix of counts, and what is made of items with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ridgefill.errors import NumericsError

Floats = NDArray[np.float64]
Strata = Sequence[Any] | None
Groups = list[NDArray[np.intp]]

# The paper's Table 7: resamples of the BCa intervals, and those of the item bootstraps.
RESAMPLES = 5_000
ITEM_RESAMPLES = 10_000

VALUE_DECIMALS = 12
RESULT_DECIMALS = 10
TIE_TOLERANCE = 1e-10

# A double's 53 bits are cut into 26 high and 27 low ones; sums of either over a resample are exact integers.
_BITS, _LOW_BITS = 53, 27


@lru_cache(maxsize=64)
def count_matrix(strata: tuple[Any, ...], resamples: int, seed: int) -> NDArray[np.uint32]:
    """How often each resample holds each item: ``[resamples, len(strata)]``, read-only.

    Every row sums to the stratum's size over each stratum. Cached: all contrasts of a set share it.
    """
    if resamples < 1:
        raise NumericsError(f"{resamples} bootstrap resamples were asked for; expected at least 1")
    rng = np.random.default_rng(seed)
    groups = groups_of(strata)
    # Strata side by side, and their columns put in the items' order at once: writing them there one by one is slow.
    tallies = np.empty((resamples, len(strata)), dtype=np.uint32)
    begin = 0
    for size in (members.size for members in groups):
        drawn = rng.integers(0, size, size=(resamples, size))
        drawn += np.arange(0, resamples * size, size)[:, np.newaxis]
        tally = np.bincount(drawn.ravel(), minlength=resamples * size)
        tallies[:, begin : begin + size] = tally.reshape(resamples, size)
        begin += size
    counts = tallies.take(np.argsort(np.concatenate(groups)), axis=1)
    counts.setflags(write=False)
    return counts


def resampled_means(items: Floats, keys: tuple[Any, ...], resamples: int, seed: int) -> Floats:
    """Means of the resamples ``[k, resamples]`` of items ``[k, n]``, for all ``k`` in one matrix product.

    The product is of whole numbers below 2^53 and so exact: a row's means depend neither on the other rows nor
    on the order in which a BLAS adds. Each mean is off by at most half a unit in the last of 53 bits of the row's
    largest item, and two roundings.
    """
    counts = count_matrix(keys, resamples, seed).astype(np.float64)
    exponents = np.frexp(np.abs(items).max(axis=1, keepdims=True))[1]
    whole = np.rint(np.ldexp(items, _BITS - exponents))
    high = np.floor(np.ldexp(whole, -_LOW_BITS))
    low = whole - np.ldexp(high, _LOW_BITS)
    sums = np.concatenate([high, low]) @ counts.T
    means: Floats = sums[: len(items)]
    means *= 2.0**_LOW_BITS
    means += sums[len(items) :]
    means *= np.ldexp(1.0, exponents - _BITS)
    means /= items.shape[1]
    return means


def groups_of(keys: Sequence[Any]) -> Groups:
    """Positions of every stratum's items, strata in sorted order."""
    where: dict[Any, list[int]] = {}
    for index, key in enumerate(keys):
        where.setdefault(key, []).append(index)
    return [np.array(where[key], dtype=np.intp) for key in sorted(where)]


def deviations(items: Floats, groups: Groups) -> Floats:
    """Items ``[k, n]`` minus their row's mean in their stratum; exactly zero where that stratum is constant."""
    spread = np.zeros_like(items)
    for members in groups:
        group = items.take(members, axis=1)
        varies = group.min(axis=1, keepdims=True) < group.max(axis=1, keepdims=True)
        spread[:, members] = np.where(varies, group - group.mean(axis=1, keepdims=True), 0.0)
    return spread


def keys_of(strata: Strata, n: int) -> tuple[Any, ...]:
    """One stratum key per item; a single stratum for None. Raises NumericsError for another number of keys."""
    if strata is None:
        return (0,) * n
    keys = tuple(strata)
    if len(keys) != n:
        raise NumericsError(f"{len(keys)} strata were given for {n} items; expected one per item")
    return keys


def mean(items: Floats) -> float:
    """The mean of ``[n]`` items, independent of their order, to the decimals that results keep."""
    return round(math.fsum(items.tolist()) / items.size, RESULT_DECIMALS)


def differences(a: ArrayLike, b: ArrayLike) -> Floats:
    """``a - b`` of two arms' items ``[n]``; NumericsError when they cannot be paired."""
    left, right = checked(a, "first arm"), checked(b, "second arm")
    if left.size != right.size:
        raise NumericsError(f"arms of {left.size} and {right.size} items cannot be paired; expected the same items")
    return np.round(left - right, VALUE_DECIMALS)


def checked(values: ArrayLike, what: str) -> Floats:
    """The items ``[n]`` as doubles, rounded as they enter; NumericsError for no items, NaN or infinity."""
    items = np.asarray(values, dtype=np.float64)
    if items.ndim != 1 or items.size == 0:
        raise NumericsError(f"{what}: found shape {list(items.shape)}, expected a list of at least one number")
    return _finite(items, what)


def checked_rows(values: ArrayLike, what: str) -> Floats:
    """Items ``[k, n]`` of ``k`` contrasts, as :func:`checked`; ``k`` may be 0."""
    items = np.asarray(values, dtype=np.float64)
    if items.ndim != 2 or items.shape[1] == 0:
        raise NumericsError(f"{what}: found shape {list(items.shape)}, expected [contrasts, items] with items")
    return _finite(items, what)


def _finite(items: Floats, what: str) -> Floats:
    bad = int(np.count_nonzero(~np.isfinite(items)))
    if bad:
        raise NumericsError(f"{what}: {bad} of {items.size} values are NaN or infinite; leave such items out first")
    return np.round(items, VALUE_DECIMALS)
