"""What held-out data say, and that too few of them say nothing."""

import random

import pytest

from ridgefill.errors import ResultsError
from ridgefill.stats import binomial_floor, mean_interval, non_inferiority, paired_contrast
from ridgefill.tuning.candidates import EXACT
from ridgefill.tuning.confirm import confirm, least_samples
from ridgefill.tuning.report import confirmed


def rows(samples, lost=0, exact=1.0, documents=4, keys=(0, 2)):
    """``samples`` of two tasks, the first ``lost`` of them missed by the arm; documents with and without key tokens."""
    made = []
    for number in range(samples):
        for key in ("arm", EXACT):
            score = 0.0 if key == "arm" and number < lost else exact
            made.append({"suite": "ruler", "item": f"s{number}", "stratum": f"t{number % 2}", "candidate": key,
                         "score": score, "loss": None, "key_loss": None})  # fmt: skip
    for number in range(documents):
        for key in ("arm", EXACT):
            added = 0.0 if key == EXACT else 0.01 * (number + 1)
            made.append({"suite": "documents", "item": f"d{number}", "stratum": "d", "candidate": key, "score": None,
                         "loss": added, "key_loss": 10 * added if number in keys else None})  # fmt: skip
    return random.Random(samples).sample(made, len(made))


@pytest.mark.parametrize("margin", [1.0, 2.0, 3.0, 10.0])
def test_the_least_samples_are_the_first_whose_floor_is_below_the_margin(margin):
    """One fewer and the floor is not: at 3 points, 99."""
    least = least_samples(margin)
    assert binomial_floor(least) < margin <= binomial_floor(least - 1)
    assert least_samples(3.0) == 99


def test_equal_arms_are_shown_non_inferior_once_there_are_enough_samples():
    """Bound at minus the floor; with one sample less than needed the same perfect result is not shown, and says why."""
    enough, few = confirm(rows(99), "arm", 0), confirm(rows(98), "arm", 0)
    assert enough.shown
    assert enough.test.bound == -binomial_floor(99) > -3.0
    assert not few.shown
    assert few.difference.estimate == 0.0
    assert "not shown: n = 98 does not allow it" in confirmed(few)[-1]
    assert "99 samples are needed" in confirmed(few)[-1]
    assert "shown: retrieval is at most 3 points below" in confirmed(enough)[-1]


def test_a_real_loss_is_not_shown_and_not_blamed_on_n():
    """Ten misses in 120: the interval excludes nothing better than the margin."""
    checked = confirm(rows(120, lost=10), "arm", 0)
    assert not checked.shown
    assert checked.test.n == 120
    assert "do not exclude a loss of 3 points or more" in confirmed(checked)[-1]


def test_numbers_are_those_of_the_statistics_on_items_paired_by_name():
    """Whatever the order of rows; resampled within tasks."""
    given = rows(40, lost=7)
    checked = confirm(given, "arm", 3)
    by = {key: {row["item"]: row for row in given if row["candidate"] == key and row["score"] is not None}
          for key in ("arm", EXACT)}  # fmt: skip
    items = list(by["arm"])
    arm, exact = ([100 * by[key][one]["score"] for one in items] for key in ("arm", EXACT))
    tasks = [by["arm"][one]["stratum"] for one in items]
    assert checked.test == non_inferiority(arm, exact, 3.0, tasks, seed=3)
    assert checked.difference == paired_contrast(arm, exact, tasks, seed=3)


def test_key_loss_is_over_documents_that_have_key_tokens():
    """Two of four; none leaves it out, and says so."""
    checked = confirm(rows(20), "arm", 0)
    assert checked.key_loss.estimate == pytest.approx((0.1 + 0.3) / 2)
    assert (checked.key_loss.n, checked.documents) == (2, 4)
    none = confirm(rows(20, keys=()), "arm", 0)
    assert none.key_loss is None
    assert any("no document has a key token" in line for line in confirmed(none))


def test_a_domain_of_one_document_does_not_take_an_interval_its_width():
    """Then all documents are resampled together; with two of each domain, within domains."""
    given = rows(20, documents=4, keys=range(4))
    loss = [row["loss"] for row in given if row["candidate"] == "arm" and row["suite"] == "documents"]
    for row in given:
        row["stratum"] = row["item"] if row["suite"] == "documents" else row["stratum"]
    checked = confirm(given, "arm", 5)
    assert checked.loss == mean_interval(loss, None, seed=5)
    assert checked.loss.ci_low < checked.loss.ci_high
    for row in given:
        row["stratum"] = str(int(row["item"][1:]) // 2) if row["suite"] == "documents" else row["stratum"]
    domains = [row["stratum"] for row in given if row["candidate"] == "arm" and row["suite"] == "documents"]
    assert confirm(given, "arm", 5).loss == mean_interval(loss, domains, seed=5)


def test_an_exact_arm_that_finds_little_is_said_to_prove_little():
    """Nothing can be lost where nothing is found; a strong one has no such note."""
    weak = confirm(rows(120, exact=0.0), "arm", 0)
    assert weak.shown
    assert "comparison says little" in confirmed(weak)[-1]
    assert not any("says little" in line for line in confirmed(confirm(rows(120), "arm", 0)))


def test_items_under_one_arm_only_are_refused():
    """And so is no item at all."""
    with pytest.raises(ResultsError, match="under one arm only"):
        confirm([row for row in rows(5) if (row["candidate"], row["item"]) != ("arm", "s2")], "arm", 0)
    with pytest.raises(ResultsError, match="no held-out sample"):
        confirm(rows(0), "arm", 0)
