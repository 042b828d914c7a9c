"""Rows of what runs without a real model, at sizes of a moment: they have values, and say so when they cannot."""

import sys
from math import isnan

import pytest

from ridgefill.bench import arms_cost, fitting, moments, recomputing, statistics
from ridgefill.bench.prompts import random_ids

FIT = fitting.FitSettings(repeats=1, rows=256, hidden=16, layers=4, split=2, lams=(0.01, 0.1))
SMALL = moments.CaptureSettings(repeats=1, rows=32, chunks=2, hidden=8, layers=4, splits=((1, 2), (2,)))
BOOTSTRAP = statistics.BootstrapSettings(repeats=1, contrasts=3, items=12, strata=2, resamples=50)


def test_moments_have_a_rate_for_each_choice_of_splits_and_no_capture_without_a_model():
    """The capture's row names the folder it misses."""
    several, one, capture = moments.rows(SMALL)
    assert (several.name, one.name) == ("moments", "moments_one_split")
    assert several.value > 0 < one.value
    assert isnan(capture.value)
    assert "no model folder" in capture.limited


def test_a_fit_is_timed_against_scikit_learn_with_the_same_answer():
    """The answers are compared, and both rows have a value."""
    pytest.importorskip("sklearn", reason="scikit-learn is an extra: pip install '.[bench]'")
    grid, other = fitting.rows(FIT)
    assert grid.value > 0
    assert other.value > 0
    assert "the answers differ by" in other.limited


def test_a_fit_with_another_answer_has_no_value(monkeypatch):
    """Whatever its time."""
    pytest.importorskip("sklearn", reason="scikit-learn is an extra: pip install '.[bench]'")
    monkeypatch.setattr(fitting, "SAME", 0.0)
    row = list(fitting.rows(FIT))[1]
    assert isnan(row.value)
    assert "not the same answer" in row.limited


@pytest.mark.parametrize(
    ("package", "module", "settings"), [("sklearn", fitting, FIT), ("scipy", statistics, BOOTSTRAP)]
)
def test_a_package_that_is_not_installed_is_named(monkeypatch, package, module, settings):
    """With what to type; the other rows are there."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    row = list(module.rows(settings))[-1]
    assert isnan(row.value)
    assert "pip install '.[bench]'" in row.limited


def test_the_bootstrap_is_timed_against_scipy():
    """scipy's one contrast counts as many times as there are contrasts."""
    (row,) = statistics.rows(BOOTSTRAP)
    assert row.value > 0
    assert row.low <= row.value <= row.high


def test_arms_need_a_model(tmp_path):
    """Both ends of the match say so."""
    above, below = arms_cost.rows(arms_cost.ArmsSettings(tmp_path / "none"))
    assert (above.better, below.better) == ("less", "more")
    assert isnan(above.value)
    assert "no model folder" in below.limited


def test_numbers_that_disagree_have_no_time(tmp_path):
    """A folder whose cells cannot be found again, here because nothing else is in it."""
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "cells.json").write_text('{"cells": [1, 2]}', "utf-8")
    (row,) = recomputing.rows(recomputing.RecomputeSettings(tmp_path, repeats=1))
    assert isnan(row.value)
    assert "not measured" in row.limited


def test_prompts_are_their_label_s_and_leave_out_marks():
    """The same label gives the same ids, another one others; the first ids of a vocabulary never come."""
    ids = random_ids("a", 200, 500)
    assert ids == random_ids("a", 200, 500) != random_ids("b", 200, 500)
    assert min(ids) >= 100
    assert max(random_ids("a", 200, 50)) < 50
