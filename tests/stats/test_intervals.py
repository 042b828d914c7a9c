"""Intervals, bounds and tests of ``ridgefill.stats`` for one contrast: against scipy, theory and degenerate data."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ridgefill import stats
from ridgefill.errors import NumericsError


def skewed(n, seed=1):
    return np.random.default_rng(seed).exponential(size=n)


@pytest.mark.parametrize(("n", "points"), [(136, 2.18), (138, 2.15), (216, 1.38), (219, 1.36)])
def test_binomial_floor_is_the_published_one(n, points):
    """The four floors the paper prints, to their two decimals."""
    assert round(stats.binomial_floor(n), 2) == points


def test_sign_test_is_the_published_one():
    """48 wins against 41 losses give p = 0.525."""
    assert round(stats.sign_test(48, 41), 3) == 0.525


@given(st.integers(0, 60), st.integers(0, 60))
def test_sign_test_is_the_exact_binomial_test(wins, losses):
    """scipy's exact two-sided binomial test at one half gives the same p-value."""
    reference = scipy_stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert stats.sign_test(wins, losses) == pytest.approx(reference, rel=1e-12)


def scipy_interval(values, seed, **options):
    """scipy's BCa interval of the mean from 5,000 resamples drawn by default_rng(seed)."""
    rng = np.random.default_rng(seed)
    result = scipy_stats.bootstrap((values,), np.mean, n_resamples=5000, method="BCa", rng=rng, **options)
    return result.confidence_interval


@pytest.mark.parametrize(
    "values",
    [skewed(12), skewed(40), skewed(150), np.array([1.0] * 17 + [0.0] * 5), np.array([0.25, 0.5, 1.0] * 9)],
    ids=["skewed12", "skewed40", "skewed150", "right_or_wrong", "partial_credit"],
)
def test_unstratified_interval_is_that_of_scipy(values):
    """From one seed scipy draws the same resamples: endpoints agree to the decimals kept, ties included."""
    ours = stats.mean_interval(values, seed=3)
    reference = scipy_interval(values, 3)
    assert ours.ci_low == pytest.approx(reference.low, abs=1e-9)
    assert ours.ci_high == pytest.approx(reference.high, abs=1e-9)


def test_unstratified_interval_agrees_with_scipy_within_monte_carlo_error():
    """With unrelated seeds the mean endpoints of 20 runs differ by at most 4 of their standard errors."""
    values = skewed(40)
    ours = [stats.mean_interval(values, seed=seed) for seed in range(20)]
    reference = [scipy_interval(values, 1000 + seed) for seed in range(20)]
    for mine, theirs in (
        ([run.ci_low for run in ours], [run.low for run in reference]),
        ([run.ci_high for run in ours], [run.high for run in reference]),
    ):
        error = math.sqrt((np.var(mine, ddof=1) + np.var(theirs, ddof=1)) / 20)
        assert abs(np.mean(mine) - np.mean(theirs)) <= 4 * error


def test_one_sided_bound_is_that_of_scipy():
    """The 95 % lower bound is scipy's with ``alternative="greater"``."""
    values = skewed(60)
    ours = stats.lower_bound(values, np.zeros(60), seed=3)
    assert ours == pytest.approx(scipy_interval(values, 3, alternative="greater").low, abs=1e-9)


def test_interval_covers_the_mean_as_often_as_it_says():
    """Of 300 intervals over two normal strata, 95 % hold the true mean, give or take 4 standard errors."""
    rng = np.random.default_rng(11)
    strata = ["x"] * 30 + ["y"] * 30
    held = 0
    for _ in range(300):
        values = np.concatenate([rng.normal(0.0, 1.0, 30), rng.normal(4.0, 3.0, 30)])
        interval = stats.mean_interval(values, strata, resamples=400)
        held += interval.ci_low <= 2.0 <= interval.ci_high
    assert abs(held / 300 - 0.95) <= 4 * math.sqrt(0.95 * 0.05 / 300)


def test_count_matrix_draws_as_documented():
    """Strata in sorted order, one ``integers`` call each, counted in the items' own columns."""
    strata = ("b", "a", "b", "a", "b")
    rng = np.random.default_rng(3)
    drawn_a, drawn_b = rng.integers(0, 2, size=(7, 2)), rng.integers(0, 3, size=(7, 3))
    counts = stats.count_matrix(strata, 7, 3)
    for row in range(7):
        assert list(counts[row, [1, 3]]) == [list(drawn_a[row]).count(k) for k in range(2)]
        assert list(counts[row, [0, 2, 4]]) == [list(drawn_b[row]).count(k) for k in range(3)]


def test_resamples_keep_every_stratum_whole():
    """Each resample holds as many items of a stratum as the data do."""
    strata = ("b",) * 3 + ("a",) * 5 + ("c",)
    counts = stats.count_matrix(strata, 50, 0)
    assert (counts[:, :3].sum(axis=1) == 3).all()
    assert (counts[:, 3:8].sum(axis=1) == 5).all()
    assert (counts[:, 8] == 1).all()


def test_count_matrix_is_shared_and_read_only():
    """All contrasts over the same items use one matrix, and none of them can change it."""
    matrix = stats.count_matrix((0, 1, 0), 10, 0)
    assert stats.count_matrix((0, 1, 0), 10, 0) is matrix
    with pytest.raises(ValueError, match="read-only"):
        matrix[0, 0] = 9


def test_variation_between_strata_alone_does_not_widen_the_interval():
    """Items that differ only between strata are constant to a stratified resample, and marked so."""
    contrast = stats.mean_interval([1.0, 1.0, 5.0, 5.0], ["x", "x", "y", "y"])
    assert contrast == stats.Contrast(3.0, 3.0, 3.0, 4, "constant")


def test_constant_differences_give_a_marked_zero_width_interval():
    """0.3 - 0.1 and 0.4 - 0.2 differ in the last bit only, which is not variation."""
    contrast = stats.paired_contrast([0.3, 0.4, 0.7], [0.1, 0.2, 0.5])
    assert contrast == stats.Contrast(0.2, 0.2, 0.2, 3, "constant")


def test_single_item_is_constant():
    """One item cannot vary under resampling: zero width, marked."""
    assert stats.mean_interval([2.5]).status == "constant"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("function", [stats.paired_contrast, stats.lower_bound])
def test_values_that_are_not_finite_are_refused(bad, function):
    """A NaN or infinity in either arm is an error, never a number."""
    with pytest.raises(NumericsError, match="NaN or infinite"):
        function([1.0, bad], [0.0, 0.0])
    with pytest.raises(NumericsError, match="NaN or infinite"):
        function([1.0, 2.0], [0.0, bad])


@pytest.mark.parametrize(
    ("a", "b", "strata", "message"),
    [
        ([], [], None, "at least one number"),
        ([1.0], [1.0, 2.0], None, "cannot be paired"),
        ([1.0, 2.0], [1.0, 2.0], ["x"], "one per item"),
        ([[1.0, 2.0]], [[1.0, 2.0]], None, "found shape"),
    ],
)
def test_items_that_do_not_match_are_refused(a, b, strata, message):
    """Empty, unequal, unlabelled or nested data end in one sentence."""
    with pytest.raises(NumericsError, match=message):
        stats.paired_contrast(a, b, strata)


def test_counts_that_make_no_sense_are_refused():
    """No samples, negative wins or no resamples are errors."""
    with pytest.raises(NumericsError, match="at least one sample"):
        stats.binomial_floor(0)
    with pytest.raises(NumericsError, match="counts from 0"):
        stats.sign_test(-1, 3)
    with pytest.raises(NumericsError, match="expected at least 1"):
        stats.mean_interval([1.0, 2.0], resamples=0)


def test_bound_of_an_accuracy_is_never_above_the_binomial_floor():
    """Perfect agreement on 136 samples still bounds the loss at the published 2.18 points, no tighter."""
    same = np.full(136, 100.0)
    assert stats.lower_bound(same, same) == 0.0
    assert round(stats.lower_bound(same, same, accuracy=True), 2) == -2.18


def test_bound_of_an_accuracy_keeps_a_worse_bootstrap_bound():
    """Where the bootstrap bound lies below the floor, it is the bound."""
    a = np.array([100.0] * 60 + [0.0] * 40)
    b = np.full(100, 100.0)
    assert stats.lower_bound(a, b, accuracy=True) == stats.lower_bound(a, b) < -40.0


def test_one_sided_bound_lies_inside_the_two_sided_interval():
    """A 5 % level is above a 2.5 % one and below the mean."""
    a, b = skewed(50), skewed(50, 2)
    contrast = stats.paired_contrast(a, b)
    assert contrast.ci_low < stats.lower_bound(a, b) < contrast.estimate


def test_seed_alone_decides_the_interval():
    """Same seed, same interval to the last bit; another seed, another interval."""
    values = skewed(30)
    assert stats.mean_interval(values, seed=4) == stats.mean_interval(values, seed=4)
    assert stats.mean_interval(values, seed=4) != stats.mean_interval(values, seed=5)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(-100, 100), st.sampled_from("abc")), min_size=2, max_size=25))
def test_swapping_the_arms_negates_the_estimate_and_intervals_hold_order(pairs):
    """a - b is minus b - a; an interval is ordered; and adding a constant to both arms changes nothing."""
    values = [round(value, 3) for value, _ in pairs]
    strata = [key for _, key in pairs]
    zeros = [0.0] * len(values)
    forward = stats.paired_contrast(values, zeros, strata, resamples=200)
    backward = stats.paired_contrast(zeros, values, strata, resamples=200)
    assert forward.estimate == -backward.estimate
    assert forward.ci_low <= forward.ci_high
    moved = stats.paired_contrast([v + 8.0 for v in values], [8.0] * len(values), strata, resamples=200)
    assert moved == forward
