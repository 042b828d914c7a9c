"""Decision rules: three values, decided from numbers alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.rules import Combination, Condition, Prediction, decide, rule_from, rule_text

SET = {"model": "m", "split": 19, "subset": None}


def condition(op: str = ">", threshold: str = "0", metric: str = "a", statistic: str = "ci_low") -> Condition:
    return Condition(metric, "ridgefill", "identity", SET, statistic, op, threshold)


def prediction(rule: Any, min_n: int = 10, missing: Any = "undecided") -> Prediction:
    return Prediction("h1", "it is so", rule, min_n, missing)


def numbers(**values: Any):
    """A look-up that knows one number per metric."""

    def lookup(metric: str, arm: str, baseline: str | None, where: Any) -> dict[str, Any]:
        assert (arm, baseline, dict(where)) == ("ridgefill", "identity", SET)
        value = values.get(metric)
        n = 50 if value is not None else None
        return {
            "estimate": value,
            "ci_low": value,
            "ci_high": value,
            "lower_bound": value,
            "n": n,
            "status": "ok",
        }

    return lookup


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (">", 0.1, "refuted"),
        (">=", 0.1, "supported"),
        ("<", 0.1, "refuted"),
        ("<=", 0.1, "supported"),
        (">", 0.2, "supported"),
        ("<", 0.05, "supported"),
        (">=", 0.05, "refuted"),
        ("<=", 0.2, "refuted"),
    ],
)
def test_thresholds_compare_as_the_decimals_they_are_written_as(op: str, value: float, expected: str) -> None:
    """0.1 measured against "0.1" is equal: floats stand for their shortest decimal."""
    assert decide(prediction(condition(op, "0.1")), numbers(a=value)).verdict == expected


@pytest.mark.parametrize("missing", ["undecided", "refuted"])
@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), float("-inf")])
def test_missing_and_infinite_numbers_follow_the_stated_policy(value: float | None, missing: str) -> None:
    """No number, NaN and infinities give the prediction's ``missing`` verdict, never support."""
    verdict = decide(prediction(condition(), missing=missing), numbers(a=value))
    assert verdict.verdict == missing
    assert verdict.values[0]["value"] is None


def test_too_few_items_decide_nothing() -> None:
    """Below min_n the verdict is undecided, whatever the numbers say, and the reason says so."""
    verdict = decide(prediction(condition(), min_n=51, missing="refuted"), numbers(a=5.0))
    assert verdict.verdict == "undecided"
    assert "50 items, at least 51" in verdict.reason


TRUTH = {"supported": 1.0, "refuted": -1.0, "undecided": None}


@given(st.lists(st.sampled_from(sorted(TRUTH)), min_size=1, max_size=5), st.sampled_from(["all", "any"]))
def test_all_and_any_combine_as_in_kleenes_logic(outcomes: list[str], how: Any) -> None:
    """all is the minimum and any the maximum of refuted < undecided < supported."""
    order = ["refuted", "undecided", "supported"]
    names = [f"m{index}" for index in range(len(outcomes))]
    rule = Combination(how, tuple(condition(metric=name) for name in names))
    lookup = numbers(**{name: TRUTH[outcome] for name, outcome in zip(names, outcomes, strict=True)})
    expected = (min if how == "all" else max)(outcomes, key=order.index)
    verdict = decide(prediction(rule), lookup)
    assert verdict.verdict == expected
    assert [row["outcome"] for row in verdict.values] == outcomes


def test_every_number_is_listed_even_after_the_verdict_is_clear() -> None:
    """A refuted first part does not hide the second from the report."""
    rule = Combination("all", (condition(metric="a"), condition(metric="b")))
    verdict = decide(prediction(rule), numbers(a=-1.0, b=2.5))
    assert [(row["metric"], row["value"], row["n"]) for row in verdict.values] == [
        ("a", -1.0, 50),
        ("b", 2.5, 50),
    ]
    assert "a(ridgefill - identity" in verdict.reason
    assert "b(" not in verdict.reason


def test_rules_read_as_one_line() -> None:
    """rule_text names statistic, metric, contrast, set, comparison and threshold."""
    data = {
        "metric": "nll_all", "arm": "ridgefill", "set": {"model": "m", "split": 19, "subset": "code"},
        "statistic": "estimate", "op": "<", "threshold": "0.5",
    }  # fmt: skip
    assert rule_text(rule_from(data)) == "estimate of nll_all(ridgefill, model m, split 19, subset code) < 0.5"
    assert rule_text(rule_from({"any": [data, data]})).startswith("any(estimate of nll_all(ridgefill,")


def test_a_degenerate_interval_is_marked_in_the_reason() -> None:
    """Constant data still decide, and the verdict says that they were constant."""

    def lookup(*_: Any) -> dict[str, Any]:
        return {"ci_low": 3.0, "n": 20, "status": "constant"}

    verdict = decide(prediction(condition()), lookup)
    assert verdict.verdict == "supported"
    assert "constant" in verdict.reason
