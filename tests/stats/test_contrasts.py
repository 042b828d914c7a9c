"""Many contrasts over the same items: each is what it is alone, and what plain Python makes of the same counts."""

import math
import runpy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ridgefill import stats
from ridgefill.errors import NumericsError
from ridgefill.stats.resampling import resampled_means

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "bootstrap.py"))
LEVELS = (0.025, 0.975)


def rows(n, seed=0):
    """Six rows of items of very different size and shape, one of them constant."""
    rng = np.random.default_rng(seed)
    return np.stack(
        [
            rng.normal(size=n),
            rng.exponential(size=n) * 1e5,
            rng.integers(0, 2, n) * 100.0,
            np.full(n, 0.3),
            rng.normal(size=n) * 1e-7,
            rng.lognormal(0, 2, n) - 40.0,
        ]
    )


def labels(n):
    """Three strata of unequal size, out of order."""
    return ["cab"[i % 7 % 3] for i in range(n)]


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_one_contrast_alone_is_the_same_among_many_to_the_last_bit(method):
    """In any company, in any place, for numbers of contrasts and items that no kernel divides evenly."""
    for n in (1, 2, 7, 53, 216):
        values, strata = rows(n), labels(n)
        many = stats.contrasts(values, strata, 500, 3, method=method)
        alone = [stats.contrasts(row[None], strata, 500, 3, method=method)[0] for row in values]
        turned = stats.contrasts(np.vstack([values[::-1], values, values]), strata, 500, 3, method=method)
        assert list(many) == alone == list(turned[:6])[::-1] == list(turned[6:12])
        assert alone == [stats.mean_interval(row, strata, 500, 3, method=method) for row in values]


def test_resampled_means_are_exact_sums_in_any_order():
    """Off an exact sum by rounding alone, and bit for bit the same with the items in another order."""
    values, n = rows(41), 41
    keys = (0,) * n
    counts = stats.count_matrix(keys, 60, 1)
    means = resampled_means(values, keys, 60, 1)
    for row, own in zip(values, means, strict=True):
        room = 4 * np.finfo(float).eps * np.abs(row).max()
        for count, mean in zip(counts.tolist(), own, strict=True):
            exact = sum(Fraction(v) * c for v, c in zip(row.tolist(), count, strict=True)) / n
            assert abs(Fraction(float(mean)) - exact) <= room
    order = np.random.default_rng(2).permutation(n)
    whole = np.rint(values[0] * 2.0**40) / 2.0**40
    product = [math.fsum(whole[order] * count[order]) / n for count in counts]
    assert resampled_means(whole[None], keys, 60, 1)[0].tolist() == product


@pytest.mark.parametrize("seed", range(4))
def test_intervals_are_those_of_the_naive_bootstrap(seed):
    """Same counts, plain Python: every row and both methods agree to the decimals kept, strata unequal."""
    n, resamples = 23, 300
    values, strata = rows(n, seed), labels(n)
    counts = stats.count_matrix(tuple(strata), resamples, seed).tolist()
    found = stats.contrasts(values, strata, resamples, seed)
    plain = stats.contrasts(values, strata, resamples, seed, method="percentile")
    for row, bca, percentile in zip(values.tolist(), found, plain, strict=True):
        if bca.status == "constant":
            continue
        expected, _ = NAIVE["bca"](counts, [row], strata, NAIVE["average"], LEVELS)
        assert [bca.ci_low, bca.ci_high] == pytest.approx(expected, rel=1e-9, abs=1e-9)
        expected = NAIVE["percentile"](counts, [row], NAIVE["average"], LEVELS)
        assert [percentile.ci_low, percentile.ci_high] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_percentile_interval_is_that_of_scipy():
    """From one seed, 10,000 resamples: endpoints agree to the decimals kept."""
    values = np.random.default_rng(5).exponential(size=60)
    ours = stats.mean_interval(values, None, stats.ITEM_RESAMPLES, 3, method="percentile")
    theirs = scipy_stats.bootstrap(
        (values,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert [ours.ci_low, ours.ci_high] == pytest.approx([theirs.low, theirs.high], abs=1e-9)


@pytest.mark.parametrize("method", ["bca", "percentile"])
def test_normal_items_give_the_interval_of_theory(method):
    """Over 40 seeds the ends average to the mean plus and minus 1.96 standard errors.

    An end of 5,000 resamples varies by 0.06 standard errors at most (0.038 for the quantile, as much again for BCa's
    bias), so the average of 40 by 0.01; 4 of those are allowed, and what 500 normal items are away from normal.
    """
    values = np.random.default_rng(8).normal(size=500)
    runs = [stats.mean_interval(values, seed=seed, method=method) for seed in range(40)]
    error = values.std() / math.sqrt(500)
    low, high = (np.mean([getattr(run, end) for run in runs]) for end in ("ci_low", "ci_high"))
    assert (low - values.mean()) / error == pytest.approx(-1.96, abs=0.06)
    assert (high - values.mean()) / error == pytest.approx(1.96, abs=0.06)


def test_all_contrasts_of_a_set_use_one_count_matrix():
    """Seventy contrasts, and a paired one over the same items, draw resamples once."""
    strata = [f"{i % 5}" for i in range(30)]
    values = np.random.default_rng(1).normal(size=(70, 30))
    stats.count_matrix.cache_clear()
    stats.contrasts(values, strata, 200, 9)
    stats.paired_contrast(values[0], values[1], strata, 200, 9)
    assert stats.count_matrix.cache_info().misses == 1


def test_constant_rows_are_marked_and_do_not_disturb_the_others():
    """Zero width where no stratum varies; every other row has an interval."""
    found = stats.contrasts(rows(30), labels(30), 200)
    assert [c.status for c in found] == ["ok", "ok", "ok", "constant", "ok", "ok"]
    assert found[3] == stats.Contrast(0.3, 0.3, 0.3, 30, "constant")
    assert stats.contrasts(np.full((2, 4), 1.5))[1] == stats.Contrast(1.5, 1.5, 1.5, 4, "constant")
    assert stats.contrasts(np.empty((0, 4))) == ()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_single_bad_value_among_many_contrasts_is_refused(bad):
    """A NaN or infinity anywhere is an error for all: it never passes silently."""
    values = rows(20)
    values[4, 7] = bad
    with pytest.raises(NumericsError, match="1 of 120 values are NaN or infinite"):
        stats.contrasts(values)


def test_contrasts_that_make_no_sense_are_refused():
    """A flat list, no items, strata of another length, a method that does not exist."""
    with pytest.raises(NumericsError, match=r"expected \[contrasts, items\]"):
        stats.contrasts([1.0, 2.0])
    with pytest.raises(NumericsError, match=r"expected \[contrasts, items\]"):
        stats.contrasts(np.empty((3, 0)))
    with pytest.raises(NumericsError, match="one per item"):
        stats.contrasts(rows(5), ["x"])
    with pytest.raises(NumericsError, match="expected 'bca' or 'percentile'"):
        stats.contrasts(rows(5), method="basic")
