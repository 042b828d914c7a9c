"""Summaries say over how many items they are and what they leave out."""

from dataclasses import replace

import pytest

from ridgefill.errors import ResultsError
from ridgefill.suites.longbench.files import read_v2
from ridgefill.suites.longbench.summary import V1Score, compare_v2, summarise_v1, summarise_v2
from ridgefill.suites.longbench.v2 import judge


def right(item):
    return judge(item, "so", f"The correct answer is ({item.answer})")


def wrong(item):
    return judge(item, "so", "no idea")


def none(item):
    return judge(item, "so", "")


def outcomes(items, pattern):
    """One outcome an item: r right, w wrong, e empty."""
    makers = {"r": right, "w": wrong, "e": none}
    return [makers[letter](item) for item, letter in zip(items, pattern, strict=True)]


@pytest.fixture
def items(v2_file):
    return read_v2(v2_file).items


def many(item, counts):
    """Paired outcomes of two arms: how many items of rr, rw, wr, ww."""
    first, second = [], []
    for pair, count in counts.items():
        for _ in range(count):
            one = replace(item, id=f"{item.id}-{len(first)}")
            first += outcomes([one], pair[0])
            second += outcomes([one], pair[1])
    return first, second


def test_v1_means_are_in_points_and_datasets_weigh_the_same():
    """Three items of one dataset do not outweigh one of another; an item without score is left out."""
    scores = [V1Score("lcc", 1.0), V1Score("lcc", 0.5), V1Score("lcc", 0.0), V1Score("qmsum", 0.1)]
    summary = summarise_v1([*scores, V1Score("qmsum", None)])
    assert [(one.dataset, one.n, one.left_out, one.mean) for one in summary.datasets] == [
        ("lcc", 3, 0, 50.0),
        ("qmsum", 1, 1, 10.0),
    ]
    assert summary.average == 30.0


def test_a_dataset_without_scores_leaves_no_average():
    """Not an average over fewer datasets than were asked for; nothing at all gives nothing."""
    summary = summarise_v1([V1Score("lcc", 1.0), V1Score("qmsum", None)])
    assert (summary.datasets[1].n, summary.datasets[1].mean, summary.average) == (0, None, None)
    assert summarise_v1([]).average is None


def test_v2_groups_count_wrong_and_left_out_items(items):
    """own-0 right, own-1 left out, the others as written; every group adds up to its items."""
    groups = {(one.by, one.name): one for one in summarise_v2(outcomes(items, "rewwrr"))}
    overall = groups["overall", "overall"]
    assert (overall.n, overall.correct, overall.no_answer, overall.left_out) == (5, 3, 2, 1)
    assert overall.accuracy == 60.0
    assert groups["difficulty", "easy"].accuracy == pytest.approx(200 / 3)  # own-0, 3, 5
    assert groups["difficulty", "hard"].accuracy == 50.0  # own-2, 4; own-1 is left out
    assert [groups["length", name].n for name in ("short", "medium", "long")] == [2, 1, 2]
    assert groups["domain", "Single-Document QA"].left_out == 1
    for by in ("difficulty", "length", "domain"):
        members = [one for (kind, _), one in groups.items() if kind == by]
        assert sum(one.n for one in members) == 5
        assert sum(one.correct for one in members) == 3


def test_a_group_without_items_has_no_accuracy(items):
    """The fixed groups are always there; an empty one is not 0 %."""
    groups = {one.name: one for one in summarise_v2([right(items[0])])}
    assert (groups["hard"].n, groups["hard"].accuracy) == (0, None)
    assert (groups["easy"].n, groups["easy"].accuracy) == (1, 100.0)


def test_the_papers_discordant_items_give_its_p_value(items):
    """48 against 41 of 503 items: p = 0.525 (section 4.6)."""
    first, second = many(items[0], {"rr": 146, "rw": 48, "wr": 41, "ww": 268})
    overall = compare_v2(first, second)[0]
    assert (overall.n, overall.first_only, overall.second_only, overall.left_out) == (503, 48, 41, 0)
    assert round(overall.p_value, 3) == 0.525


def test_an_item_that_is_empty_for_one_arm_is_in_neither_side_of_a_comparison(items):
    """It is counted as left out, also in its groups; equal arms have p = 1."""
    first, second = outcomes(items, "rrwwre"), outcomes(items, "erwrwr")
    groups = {(one.by, one.name): one for one in compare_v2(first, second)}
    overall = groups["overall", "overall"]
    assert (overall.n, overall.left_out, overall.first_only, overall.second_only) == (4, 2, 1, 1)
    assert (groups["difficulty", "easy"].n, groups["difficulty", "easy"].second_only) == (1, 1)
    assert {one.p_value for one in compare_v2(first, first)} == {1.0}


def test_arms_of_other_items_are_not_compared(items):
    """Another order, or fewer items, is refused."""
    good = outcomes(items, "rrrrrr")
    for other in (good[::-1], good[:-1]):
        with pytest.raises(ResultsError, match="not of the same items"):
            compare_v2(good, other)
