"""The perplexity gap, weighted by domain, and what stands beside a mean with a heavy tail."""

import math
import runpy
from pathlib import Path

import numpy as np
import pytest

from ridgefill import stats
from ridgefill.errors import NumericsError

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "bootstrap.py"))


def documents():
    """Losses of two arms over 17 documents of three domains of unequal size."""
    rng = np.random.default_rng(6)
    against = rng.gamma(4.0, 0.5, 17)
    return against + rng.gamma(0.5, 0.2, 17), against, ["code"] * 9 + ["legal"] * 5 + ["essays"] * 3


def test_the_gap_is_averaged_within_domains_and_then_across():
    """By hand; a large domain weighs no more than a small one."""
    loss, against, domains = documents()
    gaps = [math.exp(a - b) - 1 for a, b in zip(loss, against, strict=True)]
    by_hand = (sum(gaps[:9]) / 9 + sum(gaps[9:14]) / 5 + sum(gaps[14:]) / 3) / 3
    assert stats.perplexity_gap(loss, against, domains).estimate == pytest.approx(by_hand, abs=1e-9)


def test_the_gaps_interval_is_that_of_the_naive_bootstrap():
    """Every resample averaged domain by domain, items left out of the weighted ones."""
    loss, against, domains = documents()
    found = stats.perplexity_gap(loss, against, domains, 300, 2)
    size = {name: domains.count(name) for name in domains}
    column = [math.expm1(a - b) * 17 / (3 * size[name]) for a, b, name in zip(loss, against, domains, strict=True)]
    counts = stats.count_matrix(tuple(domains), 300, 2).tolist()
    ends, _ = NAIVE["bca"](counts, [column], domains, NAIVE["average"], (0.025, 0.975))
    assert [found.ci_low, found.ci_high] == pytest.approx(ends, abs=1e-9)


def test_equal_domains_weigh_documents_equally():
    """Then the gap is a plain mean, with its interval; without domains too."""
    loss, against, _ = documents()
    gaps, domains = np.expm1(loss[:12] - against[:12]), ["b", "a", "c"] * 4
    found = stats.perplexity_gap(loss[:12], against[:12], domains, 500)
    plain = stats.mean_interval(gaps, domains, 500)
    assert vars(found) == pytest.approx(vars(plain), abs=1e-9)
    assert stats.perplexity_gap(loss, against).estimate == pytest.approx(np.expm1(loss - against).mean(), abs=1e-9)


def test_gaps_without_an_answer():
    """The same loss everywhere has no width; NaN and an overflowing gap are refused."""
    assert stats.perplexity_gap([2.0, 3.0], [2.0, 3.0]) == stats.Contrast(0.0, 0.0, 0.0, 2, "constant")
    with pytest.raises(NumericsError, match="NaN"):
        stats.perplexity_gap([1.0, math.nan], [1.0, 1.0])
    with pytest.raises(NumericsError, match="has no perplexity gap"):
        stats.perplexity_gap([800.0, 1.0], [1.0, 1.0])


def test_a_tail_names_median_and_far_end():
    """Of 0..100 the mean and median are 50 and the 99th percentile is 99."""
    assert stats.tail(np.arange(101.0)) == stats.Tail(50.0, 50.0, 99.0, 101, False)


@pytest.mark.parametrize(("sigma", "heavy"), [(0.5, False), (1.0, False), (2.0, True), (3.0, True)])
def test_a_mean_outside_the_quartiles_is_marked(sigma, heavy):
    """Log-normal quantiles: the mean passes the upper quartile at sigma = 1.35; the mirror image is marked alike."""
    normal = np.quantile(np.random.default_rng(0).normal(size=20_000), (np.arange(2000) + 0.5) / 2000)
    values = np.exp(sigma * normal)
    assert stats.tail(values).heavy is stats.tail(-values).heavy is heavy


def test_light_and_constant_items_are_not_marked():
    """Normal, exponential and constant ones; a mean that one item in ten carries is."""
    rng = np.random.default_rng(1)
    assert not stats.tail(rng.normal(0.01, 1.0, 200)).heavy
    assert not stats.tail(rng.exponential(size=200)).heavy
    assert not stats.tail([0.1] * 7).heavy
    assert stats.tail([0.0] * 18 + [1.0] * 2).heavy
    with pytest.raises(NumericsError, match="NaN"):
        stats.tail([math.nan, 1.0])
