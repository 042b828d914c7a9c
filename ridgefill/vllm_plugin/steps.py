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

    filled, exact: places of rows in the step, ascending. requests: which requests have exact rows. queries: how many
    each of those has; they are the last ones of its rows in the step. counts: filled rows of every request.
    """

    filled: Ints
    exact: Ints
    requests: Ints
    queries: Ints
    counts: Ints


def divide(boundaries: Sequence[int], computed: Ints, starts: Ints) -> Step | None:
    """The step's rows, or None when every row runs every layer.

    boundaries: first exact position of each request, 0 for none filled. computed: tokens that each has in the cache
    already. starts: where each request's rows begin in the step, and where the last one's end (one number more).
    """
    scheduled = np.diff(starts)
    counts = np.clip(np.asarray(boundaries, np.int64) - computed, 0, scheduled)
    if not counts.any():
        return None
    request = np.repeat(np.arange(len(scheduled)), scheduled)
    place = np.arange(int(starts[-1]))
    within = place - np.repeat(starts[:-1], scheduled)
    filled = within < counts[request]
    queries = scheduled - counts
    (requests,) = np.nonzero(queries)
    return Step(place[filled], place[~filled], requests, queries[requests], counts)
