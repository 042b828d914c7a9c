"""Which rows of a step are filled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.vllm_plugin.settings import Settings
from ridgefill.vllm_plugin.steps import divide


def divided(boundaries, computed, scheduled, picked=None):
    starts = np.concatenate([[0], np.cumsum(scheduled)]).astype(np.int64)
    return divide(boundaries, np.array(computed, np.int64), starts, None if picked is None else np.array(picked, bool))


def test_a_step_without_filled_rows_is_the_stock_one():
    """Decoding, exact requests, and tails that began in an earlier chunk."""
    assert divided([0, 100, 100], [5, 100, 130], [20, 10, 1]) is None


def test_a_boundary_inside_a_chunk_divides_it():
    """Positions 90..109 of a request that is exact from 100, beside one decode before and after."""
    step = divided([0, 100, 0], [7, 90, 50], [1, 20, 1])
    assert step.filled.tolist() == list(range(1, 11))
    assert step.exact.tolist() == [0, *range(11, 22)]
    assert step.requests.tolist() == [0, 1, 2]
    assert step.queries.tolist() == [1, 10, 1]
    assert step.lengths.tolist() == [8, 110, 51]


def test_a_request_without_exact_rows_is_left_out():
    """Its chunk lies wholly before its tail."""
    step = divided([100, 0], [0, 3], [64, 2])
    assert step.requests.tolist() == [1]
    assert step.queries.tolist() == [2]
    assert step.counts.tolist() == [64, 0]


def test_picked_rows_before_the_tail_are_runs_of_their_own():
    """Rows 2, 3 and 7 of a chunk of ten before the tail; those of another request's decode are not asked."""
    picked = [row in (2, 3, 7) for row in range(10)]
    step = divided([100, 0], [50, 9], [10, 1], [*picked, True])
    assert step.exact.tolist() == [2, 3, 7, 10]
    assert step.requests.tolist() == [0, 0, 1]
    assert step.queries.tolist() == [2, 1, 1]
    assert step.lengths.tolist() == [54, 58, 10]
    assert step.counts.tolist() == [7, 0]


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 60), st.lists(st.booleans(), min_size=1, max_size=30)),
        min_size=1,
        max_size=6,
    ),
    st.booleans(),
)
def test_rows_are_filled_before_the_tail_unless_picked_and_the_others_come_in_runs(requests, picking):
    """Against a loop over rows."""
    boundaries, computed, flags = (list(part) for part in zip(*requests, strict=True))
    rows = [(place, row) for place in range(len(requests)) for row in range(len(flags[place]))]
    want = [computed[place] + row < boundaries[place] and not (picking and flags[place][row]) for place, row in rows]
    picked = [flag for one in flags for flag in one] if picking else None
    step = divided(boundaries, computed, [len(one) for one in flags], picked)
    if step is None:
        assert not any(want)
        return
    assert step.filled.tolist() == [place for place, filled in enumerate(want) if filled]
    assert step.exact.tolist() == [place for place, filled in enumerate(want) if not filled]
    runs = zip(step.requests.tolist(), step.queries.tolist(), step.lengths.tolist(), strict=True)
    told = [(place, length - count + row) for place, count, length in runs for row in range(count)]
    assert told == [
        (place, computed[place] + row) for (place, row), filled in zip(rows, want, strict=True) if not filled
    ]
    assert step.counts.tolist() == [
        sum(filled for (owner, _), filled in zip(rows, want, strict=True) if owner == place)
        for place in range(len(requests))
    ]


@pytest.mark.parametrize(("tokens", "boundary"), [(99, 0), (100, 0), (115, 0), (116, 16), (500, 400)])
def test_prompts_shorter_than_tail_and_smallest_bulk_are_exact(tokens, boundary):
    """Tail 100, at least 16 rows before it."""
    assert Settings("maps", tail=100, min_filled=16).boundary(tokens, True) == boundary
    assert Settings("maps", tail=100, min_filled=16).boundary(tokens, False) == 0
