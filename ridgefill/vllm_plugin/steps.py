"""Which rows of one engine step are filled and which run every layer. Knows nothing of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """The rows of one step, requests one after the other.

    filled, exact: places of rows in the step, ascending. Exact rows come in runs of consecutive positions of one
    request: requests, queries and lengths have each run's request, its rows, and the tokens up to its last row.
    counts: filled rows of every request.
    """

    filled: Ints
    exact: Ints
    requests: Ints
    queries: Ints
    lengths: Ints
    counts: Ints


def divide(
    boundaries: Sequence[int], computed: Ints, starts: Ints, picked: NDArray[np.bool_] | None = None
) -> Step | None:
    """The step's rows, or None when every row runs every layer.

    boundaries: first position of each request's tail, 0 for none filled. computed: tokens that each has in the cache
    already. starts: where each request's rows begin in the step, and where the last one's end (one number more).
    picked: of every row, whether it is exact wherever it stands.
    """
    scheduled = np.diff(starts)
    before_tail = np.clip(np.asarray(boundaries, np.int64) - computed, 0, scheduled)
    if not before_tail.any():
        return None
    request = np.repeat(np.arange(len(scheduled)), scheduled)
    place = np.arange(int(starts[-1]))
    within = place - np.repeat(starts[:-1], scheduled)
    filled = within < before_tail[request]
    if picked is not None:
        filled &= ~picked
        if not filled.any():
            return None
    exact = place[~filled]
    apart = (np.diff(exact, prepend=-2) > 1) | (np.diff(request[exact], prepend=-1) > 0)
    (begins,) = np.nonzero(apart)
    ends = np.append(begins, len(exact))[1:]
    last = exact[ends - 1]
    lengths = computed[request[last]] + within[last] + 1
    counts = np.bincount(request[filled], minlength=len(scheduled))
    return Step(place[filled], exact, request[last], ends - begins, lengths, counts)
