"""The scored stretch is the last of the document and never the first quarter of a tail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import TextError
from ridgefill.suites.stretch import scored_stretch


@given(st.integers(0, 300), st.integers(1, 200), st.integers(0, 300), st.integers(-2, 300))
def test_a_stretch_is_given_exactly_when_it_leaves_the_first_quarter_out(boundary, tail, after, scored):
    """Any stretch that is given is the last ``scored`` tokens, with no token of the quarter; others are refused."""
    total = boundary + tail + after
    behind = [place for place in range(boundary, total) if 4 * (place - boundary) >= tail]
    if 1 <= scored <= len(behind):
        assert list(scored_stretch(total, boundary, tail, scored)) == behind[-scored:]
    else:
        with pytest.raises(TextError, match="cannot be scored"):
            scored_stretch(total, boundary, tail, scored)


def test_a_whole_tail_is_never_scored():
    """The paper's arrangement, 512 tokens inside a tail of 4,096, is given; all 4,096 are not."""
    assert scored_stretch(8192, 4096, 4096) == range(7680, 8192)
    with pytest.raises(TextError, match="score 1 to 3072"):
        scored_stretch(8192, 4096, 4096, 4096)


def test_a_stretch_behind_the_tail_may_be_longer_than_it():
    """512 tokens scored after a prompt of 1,024 whose last 128 are the tail: none is in the tail at all."""
    assert scored_stretch(1536, 896, 128) == range(1024, 1536)


@pytest.mark.parametrize("place", [(10, 8, 3), (10, -1, 3), (10, 0, 0)])
def test_a_tail_outside_the_document_is_refused(place):
    """Numbers that cannot be are one sentence."""
    with pytest.raises(TextError, match="does not fit in 10 tokens"):
        scored_stretch(*place, 1)
