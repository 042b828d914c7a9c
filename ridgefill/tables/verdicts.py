"""The registered predictions, what was found for each, and the verdict, whichever way it fell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ridgefill.errors import ResultsError
from ridgefill.measures import in_points
from ridgefill.results import read_json
from ridgefill.tables.folder import METRIC_LABELS, Folder, arm_label, number_entry
from ridgefill.tables.grid import MINUS, Column, Entry, Table

_STATISTICS = {
    "estimate": "estimate",
    "ci_low": "lower end of the interval",
    "ci_high": "upper end of the interval",
    "lower_bound": "one-sided lower bound",
}
_OPERATORS = {">": ">", ">=": "\u2265", "<": "<", "<=": "\u2264"}


@dataclass(frozen=True)
class Outcome:
    """One prediction with its verdict as evaluated by the ledger's rules."""

    id: str
    says: str
    rule: Mapping[str, Any]
    verdict: str
    reason: str


def load_outcomes(results_dir: Path) -> tuple[Outcome, ...]:
    """Join ``claim.yaml`` and ``verdicts.json`` of a results folder; empty when neither is there."""
    claim_path, verdict_path = Path(results_dir) / "claim.yaml", Path(results_dir) / "verdicts.json"
    if not claim_path.is_file() and not verdict_path.is_file():
        return ()
    try:
        claim = yaml.safe_load(claim_path.read_text(encoding="utf-8"))
        predictions = {str(p["id"]): p for p in claim.get("predictions") or []}
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{claim_path} is not a readable claim ({error}); copy it from workflow/claims") from error
    verdicts = {str(v["id"]): v for v in read_json(verdict_path)}
    if set(predictions) != set(verdicts):
        raise ResultsError(
            f"{verdict_path} has verdicts for {sorted(verdicts)}, but the claim predicts "
            f"{sorted(predictions)}; evaluate the claim again"
        )
    return tuple(
        Outcome(
            key,
            str(p["says"]),
            p["rule"],
            str(verdicts[key]["verdict"]),
            str(verdicts[key].get("reason") or ""),
        )
        for key, p in predictions.items()
    )


def leaves(rule: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The single comparisons of a rule, depth first."""
    branches = rule.get("all") or rule.get("any")
    if branches is None:
        yield rule
        return
    for branch in branches:
        yield from leaves(branch)


def condition_words(leaf: Mapping[str, Any]) -> str:
    """One comparison in words: ``RidgeFill - identity fill, RULER, filled region: estimate > 10``."""
    metric = str(leaf["metric"])
    name = METRIC_LABELS.get(metric, metric.removeprefix("ruler_").replace("_", " "))
    arms = arm_label(str(leaf["arm"]))
    if leaf.get("baseline"):
        arms += f" \u2212 {arm_label(str(leaf['baseline']))}"
    where = leaf.get("set") or {}
    subset = f", {where['subset']}" if where.get("subset") else ""
    split = f", split {where['split']}" if where.get("split") is not None else ""
    threshold = str(leaf["threshold"]).replace("-", MINUS)
    statistic = _STATISTICS.get(str(leaf["statistic"]), str(leaf["statistic"]))
    return f"{arms}, {name}{subset}{split}: {statistic} {_OPERATORS[str(leaf['op'])]} {threshold}"


def verdicts_table(folder: Folder, outcomes: tuple[Outcome, ...]) -> Table:
    """One row per comparison; the first row of a prediction carries its sentence and verdict."""
    rows = []
    for outcome in outcomes:
        for index, leaf in enumerate(leaves(outcome.rule)):
            metric = str(leaf["metric"])
            where = leaf.get("set") or {}
            found = folder.measures.lookup(metric, str(leaf["arm"]), leaf.get("baseline"), where)
            origin = folder.metric_origin("measure", metric)
            identity, n = f"verdicts.{outcome.id}.{index}", int(found["n"] or 0)
            kind = "points_fine" if in_points(metric) else "nats_fine"
            observed = found[str(leaf["statistic"])]
            verdict = number_entry(f"verdicts.{outcome.id}.verdict", outcome.verdict, "text", n, origin)
            rows.append(
                (
                    Entry(label=outcome.id if index == 0 else ""),
                    Entry(label=outcome.says if index == 0 else ""),
                    Entry(label=condition_words(leaf)),
                    number_entry(f"{identity}.observed", observed, kind, n, origin),
                    number_entry(f"{identity}.n", n, "count", n, origin),
                    verdict if index == 0 else Entry(),
                )
            )
    columns = (
        Column("prediction", "Prediction", label=True),
        Column("says", "Says", label=True),
        Column("condition", "Holds if", label=True),
        Column("observed", "Observed"),
        Column("n", "n"),
        Column("verdict", "Verdict", label=True),
    )
    caption = "Registered in the ledger before the run; the verdict follows mechanically from the conditions."
    return Table("verdicts", "Predictions and verdicts", caption, columns, tuple(rows))
