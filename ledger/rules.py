"""Decision rules: a closed grammar, decided in three values from measured numbers. Nothing is evaluated.

A rule is a condition (metric, arm, optional baseline, set, statistic, comparison, decimal threshold) or
``all`` / ``any`` over rules. A condition whose number is missing, is not finite, or rests on fewer than the
prediction's ``min_n`` items is not met either way; ``all`` and ``any`` combine as in Kleene's logic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

Outcome = Literal["supported", "refuted", "undecided"]
VerdictName = Literal["supported", "refuted", "undecided", "deviated"]
Lookup = Callable[[str, str, str | None, Mapping[str, Any]], Mapping[str, Any]]

STATISTICS = ("estimate", "ci_low", "ci_high", "lower_bound")
_COMPARE: dict[str, Callable[[Decimal, Decimal], bool]] = {
    ">": lambda value, threshold: value > threshold,
    ">=": lambda value, threshold: value >= threshold,
    "<": lambda value, threshold: value < threshold,
    "<=": lambda value, threshold: value <= threshold,
}


@dataclass(frozen=True)
class Condition:
    """One comparison. ``baseline`` makes the number a paired contrast arm - baseline."""

    metric: str
    arm: str
    baseline: str | None
    set: Mapping[str, Any]
    statistic: str
    op: str
    threshold: str


@dataclass(frozen=True)
class Combination:
    """``all`` or ``any`` of several rules."""

    how: Literal["all", "any"]
    parts: tuple[Rule, ...]


Rule = Condition | Combination


@dataclass(frozen=True)
class Prediction:
    """What a claim says beforehand. ``missing`` is the verdict when a needed number does not exist."""

    id: str
    says: str
    rule: Rule
    min_n: int
    missing: Literal["undecided", "refuted"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of one prediction; ``values`` has one JSON-ready row per condition.

    ``decide`` never says ``deviated``: that is for whoever knows what became of the claim (ledger.verdicts).
    """

    id: str
    verdict: VerdictName
    reason: str
    values: tuple[Mapping[str, Any], ...]


def rule_from(data: Mapping[str, Any]) -> Rule:
    """Build a rule from validated claim data (see ``schemas/claim.schema.json``)."""
    if "all" in data:
        return Combination("all", tuple(rule_from(part) for part in data["all"]))
    if "any" in data:
        return Combination("any", tuple(rule_from(part) for part in data["any"]))
    where = {key: data["set"].get(key) for key in ("model", "split", "subset")}
    return Condition(
        data["metric"],
        data["arm"],
        data.get("baseline"),
        where,
        data["statistic"],
        data["op"],
        data["threshold"],
    )


def conditions_of(rule: Rule) -> tuple[Condition, ...]:
    """All conditions of a rule, from left to right."""
    if isinstance(rule, Condition):
        return (rule,)
    return tuple(condition for part in rule.parts for condition in conditions_of(part))


def rule_text(rule: Rule) -> str:
    """The rule as one readable line, e.g. ``ci_low of ruler_all(ridgefill - identity) > 0``."""
    if isinstance(rule, Condition):
        arms = rule.arm if rule.baseline is None else f"{rule.arm} - {rule.baseline}"
        named = [(key, rule.set.get(key)) for key in ("model", "split", "subset")]
        place = "".join(f", {key} {value}" for key, value in named if value is not None)
        return f"{rule.statistic} of {rule.metric}({arms}{place}) {rule.op} {rule.threshold}"
    return rule.how + "(" + "; ".join(rule_text(part) for part in rule.parts) + ")"


def decide(prediction: Prediction, lookup: Lookup) -> Verdict:
    """Decide one prediction.

    ``lookup(metric, arm, baseline, set)`` returns a mapping with ``estimate``, ``ci_low``, ``ci_high``,
    ``lower_bound`` (floats or None), ``n`` and ``status``. Values are compared as the shortest decimal that
    names the float, thresholds as the decimals they are written as.
    """
    rows: list[dict[str, Any]] = []
    verdict = _decide(prediction.rule, prediction, lookup, rows)
    telling = [row for row in rows if row["outcome"] == verdict] or rows
    reason = "; ".join(str(row["reason"]) for row in telling)
    return Verdict(prediction.id, verdict, reason, tuple(rows))


def _decide(rule: Rule, prediction: Prediction, lookup: Lookup, rows: list[dict[str, Any]]) -> Outcome:
    if isinstance(rule, Condition):
        rows.append(_row(rule, prediction, lookup))
        outcome: Outcome = rows[-1]["outcome"]
        return outcome
    # Every part is looked up, also after one has settled the matter, so that the report shows all numbers.
    outcomes = [_decide(part, prediction, lookup, rows) for part in rule.parts]
    settling: Outcome = "refuted" if rule.how == "all" else "supported"
    if settling in outcomes:
        return settling
    if "undecided" in outcomes:
        return "undecided"
    return "supported" if rule.how == "all" else "refuted"


def _row(rule: Condition, prediction: Prediction, lookup: Lookup) -> dict[str, Any]:
    found = lookup(rule.metric, rule.arm, rule.baseline, rule.set)
    value, n, status = found.get(rule.statistic), found.get("n"), str(found.get("status") or "ok")
    outcome, reason = _judge(rule, prediction, value, n, status)
    return {
        "metric": rule.metric,
        "arm": rule.arm,
        "baseline": rule.baseline,
        "set": dict(rule.set),
        "statistic": rule.statistic,
        "op": rule.op,
        "threshold": rule.threshold,
        "value": float(value) if value is not None and math.isfinite(value) else None,
        "n": None if n is None else int(n),
        "status": status,
        "outcome": outcome,
        "reason": reason,
    }


def _judge(
    rule: Condition, prediction: Prediction, value: float | None, n: int | None, status: str
) -> tuple[Outcome, str]:
    text = rule_text(rule)
    if value is None or n is None:
        return prediction.missing, f"{text}: there is no such number ({status})"
    if not math.isfinite(value):
        return prediction.missing, f"{text}: the number is {value}, which counts as missing"
    if n < prediction.min_n:
        return "undecided", f"{text}: rests on {n} items, at least {prediction.min_n} were asked for"
    met = _COMPARE[rule.op](Decimal(repr(float(value))), Decimal(rule.threshold))
    extra = "" if status == "ok" else f", {status}"
    relation = "met" if met else "not met"
    return ("supported" if met else "refuted"), f"{text}: {relation} with {float(value):.6g} (n = {n}{extra})"
