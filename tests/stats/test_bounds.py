"""Non-inferiority with its verdict, and the sign test of paired items."""

import math

import numpy as np
import pytest

from ridgefill import stats
from ridgefill.errors import NumericsError


@pytest.mark.parametrize(
    ("n", "floor", "verdict"),
    [(136, 2.18, "not_shown"), (138, 2.15, "not_shown"), (216, 1.38, "non_inferior"), (219, 1.36, "non_inferior")],
)
def test_equal_arms_pass_two_points_only_with_enough_samples(n, floor, verdict):
    """The paper's four sample sizes: with every sample right the floor alone decides, and 138 samples cannot pass."""
    right = np.full(n, 100.0)
    found = stats.non_inferiority(right, right, 2.0)
    assert (round(found.bound, 2), found.verdict) == (-floor, verdict)
    assert (found.bound, found.bootstrap_bound, found.n) == (found.floor, 0.0, n)


def test_the_more_conservative_of_the_two_bounds_decides():
    """Where samples are lost the bootstrap's lies below the floor, and lower_bound is the same number."""
    rng = np.random.default_rng(3)
    strata = [i % 4 for i in range(200)]
    a, b = 100.0 * (rng.random(200) < 0.8), 100.0 * (rng.random(200) < 0.85)
    found = stats.non_inferiority(a, b, 3.0, strata, 800, 5)
    assert found.bound == found.bootstrap_bound == stats.lower_bound(a, b, strata, 800, 5, accuracy=True)
    assert found.bound < found.floor < 0
    assert found.estimate == pytest.approx((a - b).mean())
    assert found.verdict == "not_shown"


def test_a_bound_at_the_margin_does_not_show_it():
    """Strictly above minus the margin; values that are no accuracies have no floor."""
    a = np.zeros(10)
    for margin, verdict in ((0.25, "not_shown"), (0.2500001, "non_inferior")):
        found = stats.non_inferiority(a, a + 0.25, margin, accuracy=False)
        assert (found.bound, found.floor, found.verdict) == (-0.25, None, verdict)


@pytest.mark.parametrize("margin", [0.0, -2.0, math.nan, math.inf])
def test_a_margin_that_is_no_margin_is_refused(margin):
    """A margin is a positive number of points."""
    with pytest.raises(NumericsError, match="expected a positive number"):
        stats.non_inferiority([1.0], [1.0], margin)


def test_the_sign_test_counts_discordant_items():
    """48 against 41 of 503 with the rest tied: the paper's p = 0.525; NaN is refused."""
    a, b = np.zeros(503), np.zeros(503)
    a[:48], b[48:89] = 100.0, 100.0
    found = stats.paired_sign_test(a, b)
    assert (found.wins, found.losses, found.ties) == (48, 41, 414)
    assert round(found.p_value, 3) == 0.525
    turned = stats.paired_sign_test(b, a)
    assert (turned.wins, turned.losses, turned.p_value) == (41, 48, found.p_value)
    with pytest.raises(NumericsError, match="NaN"):
        stats.paired_sign_test([math.nan], [1.0])


def test_differences_in_the_last_bit_are_ties():
    """0.3 - 0.1 and 0.2 differ by rounding, which no arm wins."""
    assert stats.paired_sign_test([0.3 - 0.1], [0.2]) == stats.SignTest(0, 0, 1, 1.0)
