"""Shares with intervals: against scipy and plain Python, and every case in which there is none."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ridgefill import stats
from ridgefill.errors import NumericsError
from ridgefill.shares import gap_closed, loss_removed
from ridgefill.stats.ratios import FEWEST_DIFFERING, MOST_UNDEFINED

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "bootstrap.py"))
LEVELS = (0.025, 0.975)


def losses(n, seed=0):
    """Losses that a fill adds to ``n`` documents, and what a splice leaves of them."""
    rng = np.random.default_rng(seed)
    whole = rng.gamma(2.0, 0.2, n)
    return whole * 0.3 * rng.gamma(2.0, 0.5, n), whole


def labels(n):
    return ["bca"[i % 7 % 3] for i in range(n)]


@pytest.mark.parametrize("n", [12, 40, 126])
def test_an_unstratified_share_has_scipys_interval(n):
    """scipy's paired BCa of the same ratio, from the same draws, to the decimals kept."""
    left, whole = losses(n)
    ours = stats.share_interval(left, whole, seed=4)
    theirs = scipy_stats.bootstrap(
        (left, whole),
        lambda a, b, axis: 1.0 - a.mean(axis=axis) / b.mean(axis=axis),
        n_resamples=5000,
        paired=True,
        vectorized=True,
        method="BCa",
        rng=np.random.default_rng(4),
    ).confidence_interval
    assert [ours.ci_low, ours.ci_high] == pytest.approx([theirs.low, theirs.high], abs=1e-9)
    assert (ours.undefined, ours.status) == (0, "ok")


@pytest.mark.parametrize("seed", range(4))
def test_shares_are_those_of_the_naive_bootstrap(seed):
    """Same counts, plain Python, strata of unequal size, four splices of one fill."""
    n, resamples = 22, 300
    whole, strata = losses(n, seed)[1], labels(n)
    left = np.stack([losses(n, seed + extra)[0] for extra in range(1, 5)])
    counts = stats.count_matrix(tuple(strata), resamples, seed).tolist()
    found = stats.share_intervals(left, whole, strata, resamples, seed)
    for row, own in zip(left.tolist(), found, strict=True):
        ends, undefined = NAIVE["bca"](counts, [row, whole.tolist()], strata, NAIVE["share"], LEVELS)
        assert [own.ci_low, own.ci_high] == pytest.approx(ends, abs=1e-9)
        assert own.undefined == undefined == 0


def test_a_share_is_the_ratio_of_the_means():
    """Loss removed and gap closed of the point formulas, for one splice that helps and one that harms."""
    left, whole = losses(30)
    for row in (left, 3.0 * left + 0.1):
        found = stats.share_interval(row, whole, resamples=100)
        assert found.estimate == pytest.approx(loss_removed(row.mean(), whole.mean()), abs=1e-9)
        assert found.ci_low < found.estimate < found.ci_high
    exact, filled, spliced = (
        np.random.default_rng(s).integers(0, 5, 40) * 20.0 + up for s, up in ((1, 9), (2, 0), (3, 5))
    )
    found = stats.share_interval(exact - spliced, exact - filled, resamples=100)
    assert found.estimate == pytest.approx(gap_closed(spliced.mean(), filled.mean(), exact.mean()), abs=1e-9)


@pytest.mark.parametrize("steps", [(0.0, 0.1, 0.3), (0.0, 1 / 3, 2 / 3), (0.0, 0.7)])
def test_shares_of_the_same_whole_everywhere_are_turned_means(steps):
    """Where no item's whole differs, a share's interval is one minus the mean's, ties included."""
    strata = [i % 2 for i in range(24)]
    left = np.random.default_rng(7).choice(steps, 24)
    found, mean = stats.share_interval(left, np.full(24, 0.7), strata), stats.mean_interval(left, strata)
    expected = [1 - mean.ci_high / 0.7, 1 - mean.ci_low / 0.7]
    assert [found.ci_low, found.ci_high] == pytest.approx(expected, abs=1e-9)


def test_one_share_alone_is_the_same_among_many_to_the_last_bit():
    """Fifty splices of one fill, each also asked for alone."""
    whole, strata = losses(53)[1], labels(53)
    left = np.stack([losses(53, seed)[0] for seed in range(50)])
    many = stats.share_intervals(left, whole, strata, 400, 1)
    assert list(many) == [stats.share_interval(row, whole, strata, 400, 1) for row in left]


@pytest.mark.parametrize(("part", "share"), [(0.0, 1.0), (1.0, 0.0), (0.25, 0.75), (-1 / 3, 1.3333333333)])
def test_the_same_share_of_every_item_has_no_width(part, share):
    """All removed, nothing removed, or a fixed part: resampling cannot move it, and it is marked."""
    whole = losses(40)[1]
    found = stats.share_interval(part * whole, whole, labels(40), 500)
    assert found == stats.Share(share, share, share, 40, 0, "constant")


@pytest.mark.parametrize("whole", [np.zeros(8), np.full(8, -0.1), np.array([1.0, -1.0] * 4)])
def test_there_is_no_share_of_nothing(whole):
    """A fill that adds no loss, or less, leaves nothing to remove: no number at all."""
    found = stats.share_interval(np.ones(8), whole, resamples=50)
    assert found == stats.Share(None, None, None, 8, 50, "undefined")


def one_large(zeros):
    """A whole that rests on two items of many, and a left that varies."""
    whole = np.array([1.0, 0.9] + [0.0] * zeros)
    return np.random.default_rng(0).gamma(1.0, 0.1, whole.size), whole


def test_resamples_without_a_whole_withhold_the_interval():
    """Two of 20 items carry the whole: a resample misses both with chance 0.9^20 = 12 %, far over the half percent."""
    left, whole = one_large(18)
    found = stats.share_interval(left, whole, resamples=1000)
    missed = np.count_nonzero(stats.count_matrix((0,) * 20, 1000, 0)[:, :2].sum(axis=1) == 0)
    assert found.undefined == missed > 1000 * MOST_UNDEFINED
    assert (found.ci_low, found.ci_high, found.status) == (None, None, "too_few")
    assert found.estimate == pytest.approx(1 - left.mean() / whole.mean(), abs=1e-9)


def test_a_few_resamples_without_a_whole_are_left_out_and_counted():
    """With 4 of 12 items zero or below, a handful of 5,000 resamples has no share; the naive one drops the same."""
    whole = np.array([2.0, 1.5, 1.0, 2.0, 1.0, 1.5, 2.5, 1.5, -0.4, -1.0, 0.0, -0.8])
    left = np.random.default_rng(2).gamma(2.0, 0.2, 12)
    found = stats.share_interval(left, whole)
    assert 0 < found.undefined <= 5000 * MOST_UNDEFINED
    counts = stats.count_matrix((0,) * 12, 5000, 0).tolist()
    ends, undefined = NAIVE["bca"](counts, [left.tolist(), whole.tolist()], [0] * 12, NAIVE["share"], LEVELS)
    assert found.undefined == undefined
    assert [found.ci_low, found.ci_high] == pytest.approx(ends, rel=1e-9)


def test_twenty_differing_samples_are_too_few_and_one_more_is_not():
    """The paper's Qwen3-8B: exact and fill differ on 20 of 138 samples, so the gap closed has no interval."""
    rng = np.random.default_rng(4)
    for differing, status in ((20, "too_few"), (21, "ok")):
        gap = np.zeros(138)
        gap[:differing] = 100.0
        left = gap * (rng.random(138) < 0.5)
        found = stats.share_interval(left, gap, resamples=400, fewest=FEWEST_DIFFERING)
        assert found.status == status
        assert found.estimate == pytest.approx(1 - left.mean() / gap.mean(), abs=1e-9)
        assert (found.ci_low is None) == (status == "too_few")


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_values_that_are_not_finite_are_refused(bad):
    """On either side."""
    with pytest.raises(NumericsError, match="NaN or infinite"):
        stats.share_interval([1.0, bad], [1.0, 2.0])
    with pytest.raises(NumericsError, match="NaN or infinite"):
        stats.share_interval([1.0, 1.0], [1.0, bad])


def test_other_items_are_refused():
    """A share pairs the same items."""
    with pytest.raises(NumericsError, match="3 items cannot be shares of 2"):
        stats.share_interval([1.0, 2.0, 3.0], [1.0, 2.0])
