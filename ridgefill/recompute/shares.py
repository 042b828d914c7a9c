"""Shares ``1 - mean(left) / mean(whole)`` with intervals a second time, written without :mod:`ridgefill.stats`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ridgefill.recompute.bootstrap import TIE, corrected, draws, sum_exactly

# Resamples without anything to take a share of, as a share of all: with more of them there is no interval.
MISSING_AT_MOST = 0.005
# Samples of which there must be something to close before the gap closed has an interval.
LEAST_SAMPLES = 21

Pairs = Sequence[tuple[float, float]]


def pairs_by_stratum(labels: Sequence[str], pairs: Pairs) -> list[Pairs]:
    """(left, whole) of each stratum, strata in sorted order, items in the order given."""
    found: dict[str, list[tuple[float, float]]] = {}
    for label, (left, whole) in zip(labels, pairs, strict=True):
        found.setdefault(label, []).append((round(left, 12), round(whole, 12)))
    return [found[label] for label in sorted(found)]


def bca_share(
    strata: Sequence[Pairs], levels: Sequence[float], resamples: int, seed: int, least: int = 0
) -> tuple[float | None, list[float] | None]:
    """The share that is gone, and the ends of its interval at ``levels``.

    No share where the whole is not positive; no ends where fewer than ``least`` items have a whole, or too many
    resamples have none. Equal ends where every item has the same share.
    """
    pairs = [pair for stratum in strata for pair in stratum]
    left, whole = (sum_exactly([pair[side] for pair in pairs]) / len(pairs) for side in (0, 1))
    widest, largest = (max(abs(pair[side]) for pair in pairs) for side in (0, 1))
    if whole <= TIE * largest:
        return None, None
    share = 1 - left / whole
    found = sorted(1 - top / bottom for top, bottom in _resampled(strata, resamples, seed) if bottom > TIE * largest)
    some = sum(1 for _, part in pairs if part != 0)
    if resamples - len(found) > MISSING_AT_MOST * resamples or some < least:
        return share, None
    near = TIE * (widest + abs(1 - share) * largest)
    away = [offset for stratum in strata for offset in _offsets(stratum)]
    if all(abs(a - (1 - share) * b) <= near for a, b in away):
        return share, [share for _ in levels]
    moves = _moves(away, left, whole)
    return share, moves and corrected(found, share, near / whole, moves, levels)


def _resampled(strata: Sequence[Pairs], resamples: int, seed: int) -> list[tuple[float, float]]:
    """Means of both sides of every resample, by gathering the drawn pairs."""
    sizes = tuple(len(stratum) for stratum in strata)
    total = np.zeros((resamples, 2))
    for stratum, drawn in zip(strata, draws(sizes, resamples, seed), strict=True):
        total += np.asarray(stratum)[drawn].sum(axis=1)
    return [(float(left) / sum(sizes), float(whole) / sum(sizes)) for left, whole in total]


def _offsets(stratum: Pairs) -> list[tuple[float, float]]:
    """How far each item's sides lie from their means in its stratum."""
    left, whole = (sum_exactly([pair[side] for pair in stratum]) / len(stratum) for side in (0, 1))
    return [(a - left, b - whole) for a, b in stratum]


def _moves(away: Pairs, left: float, whole: float) -> list[float] | None:
    """How far the share without an item lies below the average of those; None when one would leave no whole."""
    rest = len(away) - 1
    if any(whole * rest <= b for _, b in away):
        return None
    without = [1 - (left * rest - a) / (whole * rest - b) for a, b in away]
    middle = sum_exactly(without) / len(without)
    return [middle - share for share in without]
