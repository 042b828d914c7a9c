"""Rows of a benchmark: when a target is met, what the JSON line holds, and how two ways are timed in turn."""

import json
from itertools import count
from math import inf, isnan, nan

import pytest

from ridgefill.bench.row import Row, alternate, json_line, ratio_of


@pytest.mark.parametrize(
    ("better", "value", "met"),
    [("more", 1.0, True), ("more", 0.99, False), ("less", 1.0, True), ("less", 1.01, False), ("more", inf, True)],
)
def test_a_target_is_met_from_its_own_side(better, value, met):
    """The target itself counts as reached."""
    assert Row("a", "a", value, 1.0, 1.0, better).met is met


@pytest.mark.parametrize("better", ["more", "less"])
def test_what_was_not_measured_meets_nothing(better):
    """A row without a value is null in JSON, which has no NaN."""
    row = Row("a", "a", nan, nan, 1.0, better, "the engine is not there")
    assert not row.met
    assert json.loads(json_line([row])) == {
        "rows": [{"name": "a", "value": None, "reference": None, "target": 1.0, "met": False}]
    }


def test_ways_take_turns_and_the_first_pair_does_not_count():
    """Both see every number; whichever went first goes second in the next pair; each way keeps its own seconds."""
    calls, ticks = [], count()
    lengths = {"first": 3, "second": 5}

    def way(name):
        def run(number):
            calls.append((number, name))
            for _ in range(lengths[name]):
                next(ticks)

        return run

    pairs = alternate(way("first"), way("second"), 2, lambda: float(next(ticks)), "test")
    assert pairs == [(4.0, 6.0), (4.0, 6.0)]
    assert calls == [(0, "second"), (0, "first"), (1, "first"), (1, "second"), (2, "second"), (2, "first")]


def test_a_ratio_is_taken_pair_by_pair():
    """A slow minute that hits both sides of a pair does not move it."""
    ratio = ratio_of([(2.0, 1.0), (20.0, 10.0), (3.0, 1.0)])
    assert (ratio.value, ratio.low, ratio.high) == (2.0, 2.0, 3.0)
    assert ratio.seconds == (3.0, 1.0)
    assert not isnan(ratio.value)
