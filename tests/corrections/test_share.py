"""``rho``: the closed form against the recurrence step by step, in pieces, and at its ends."""

import runpy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ridgefill.corrections.share import Share

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "corrections.py"))
# Both in fp64; the closed form adds the gates' logarithms where the recurrence multiplies the gates.
TOLERANCE = 1e-12
HEADS = 3


def shares(decay, is_filled, ends):
    share, begin = Share.empty(decay.shape[1], decay.device), 0
    for end in [*ends, len(decay)]:
        share = share.after(decay[begin:end], is_filled[begin:end])
        begin = end
    return share


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 40))
def test_the_closed_form_is_the_recurrence_whatever_the_chunks(data, rows):
    """Random gates from none to all forgotten in a step, random filled rows, cut anywhere, empty pieces included."""
    gate = st.floats(-60, 0, width=32)
    decay = torch.tensor(
        data.draw(st.lists(st.lists(gate, min_size=HEADS, max_size=HEADS), min_size=rows, max_size=rows))
    )
    is_filled = torch.tensor(data.draw(st.lists(st.booleans(), min_size=rows, max_size=rows)))
    ends = sorted(data.draw(st.lists(st.integers(0, rows), max_size=3)))
    expected = torch.tensor(NAIVE["rho"](decay.tolist(), is_filled.tolist()), dtype=torch.float64)
    torch.testing.assert_close(shares(decay, is_filled, ends).rho, expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("ends", [[], [1], [5, 9]])
def test_without_an_exact_row_the_share_is_one_and_without_a_filled_one_zero(ends):
    """Not nearly: exactly, whatever the gates."""
    decay = -torch.rand(20, HEADS, generator=torch.Generator().manual_seed(0)) * 5
    assert shares(decay, torch.ones(20, dtype=torch.bool), ends).rho.tolist() == [1.0] * HEADS
    assert shares(decay, torch.zeros(20, dtype=torch.bool), ends).rho.tolist() == [0.0] * HEADS
    assert Share.empty(HEADS, decay.device).rho.tolist() == [0.0] * HEADS


def test_without_forgetting_the_share_counts_rows():
    """Gates of one weigh every row alike; gates of zero leave only the last row."""
    is_filled = torch.tensor([True, False, False, True])
    assert shares(torch.zeros(4, 1), is_filled, []).rho.tolist() == [0.5]
    assert shares(torch.full((4, 1), -1e30), is_filled, [2]).rho.tolist() == [1.0]
    assert shares(torch.full((4, 1), float("-inf")), ~is_filled, [2]).rho.tolist() == [0.0]


def test_recent_rows_weigh_more():
    """Two rows, the gate of the second halves the first: shares of one third and two thirds."""
    half = torch.log(torch.full((2, 1), 0.5, dtype=torch.float64))
    for is_filled, expected in (([True, False], 1 / 3), ([False, True], 2 / 3)):
        assert shares(half, torch.tensor(is_filled), []).rho.item() == pytest.approx(expected, abs=1e-15)
