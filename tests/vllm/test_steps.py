"""Which rows of a step are filled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.vllm_plugin.settings import Settings
from ridgefill.vllm_plugin.steps import divide


def divided(boundaries, computed, scheduled):
    starts = np.concatenate([[0], np.cumsum(scheduled)]).astype(np.int64)
    return divide(boundaries, np.array(computed, np.int64), starts)


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


def test_a_request_without_exact_rows_is_left_out():
    """Its chunk lies wholly before its tail."""
    step = divided([100, 0], [0, 3], [64, 2])
    assert step.requests.tolist() == [1]
    assert step.queries.tolist() == [2]
    assert step.counts.tolist() == [64, 0]


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(1, 30)),
        min_size=1,
        max_size=6,
    )
)
def test_every_row_is_filled_exactly_when_its_position_lies_before_the_boundary(requests):
    """Against a loop over rows."""
    boundaries, computed, scheduled = (list(part) for part in zip(*requests, strict=True))
    want = [
        computed[place] + row < boundaries[place] for place in range(len(requests)) for row in range(scheduled[place])
    ]
    step = divided(boundaries, computed, scheduled)
    if step is None:
        assert not any(want)
        return
    assert step.filled.tolist() == [place for place, filled in enumerate(want) if filled]
    assert step.exact.tolist() == [place for place, filled in enumerate(want) if not filled]
    assert step.queries.sum() == len(step.exact)


@pytest.mark.parametrize(("tokens", "boundary"), [(99, 0), (100, 0), (115, 0), (116, 16), (500, 400)])
def test_prompts_shorter_than_tail_and_smallest_bulk_are_exact(tokens, boundary):
    """Tail 100, at least 16 rows before it."""
    assert Settings("maps", tail=100, min_filled=16).boundary(tokens, True) == boundary
    assert Settings("maps", tail=100, min_filled=16).boundary(tokens, False) == 0
