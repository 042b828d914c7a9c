"""The verdicts a second time: the claim's rules applied to recomputed statistics."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from ridgefill.errors import ResultsError
from ridgefill.recompute.data import Data, in_points
from ridgefill.recompute.expected import Cells, Expected, count, plain

_FIELDS = {"estimate": "estimate", "ci_low": "low", "ci_high": "high", "lower_bound": "bound"}
VERDICTS = ("supported", "refuted", "undecided")


def verdict_cells(results_dir: Path, data: Data) -> Cells:
    """Cells of the verdict table and of its counts; none when the folder holds no claim."""
    path = Path(results_dir) / "claim.yaml"
    cells: Cells = {}
    if not path.is_file():
        return cells
    try:
        predictions = yaml.safe_load(path.read_text(encoding="utf-8"))["predictions"] or []
        verdicts = [_predict(data, prediction, cells) for prediction in predictions]
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path} is not a readable claim ({error!r})") from error
    if verdicts:
        cells["summary.predictions"] = count(len(verdicts))
        for word in VERDICTS:
            cells[f"summary.{word}"] = count(verdicts.count(word))
    return cells


def _predict(data: Data, prediction: Mapping[str, Any], cells: Cells) -> str:
    leaves: list[str] = []
    verdict = _decide(data, prediction, prediction["rule"], cells, leaves)
    cells[f"verdicts.{prediction['id']}.verdict"] = Expected(verdict, verdict)
    return verdict


def _decide(data: Data, prediction: Mapping[str, Any], rule: Mapping[str, Any], cells: Cells, leaves: list[str]) -> str:
    """Three-valued: ``all`` is the worst of its parts, ``any`` the best, undecided in between."""
    for word, order in (("all", ("refuted", "undecided")), ("any", ("supported", "undecided"))):
        if word in rule:
            parts = [_decide(data, prediction, part, cells, leaves) for part in rule[word]]
            otherwise = "supported" if word == "all" else "refuted"
            return next((outcome for outcome in order if outcome in parts), otherwise)
    where = rule.get("set") or {}
    split, subset = where.get("split"), where.get("subset")
    ours = where.get("model") in (None, data.model["name"])
    metric = str(rule["metric"])
    found = data.found(
        metric, rule["arm"], rule.get("baseline"), data.split if split is None else int(split),
        None if subset is None else str(subset),
    )  # fmt: skip
    value = getattr(found, _FIELDS[rule["statistic"]]) if ours else None
    n = found.n if ours else 0
    identity = f"verdicts.{prediction['id']}.{len(leaves)}"
    leaves.append(identity)
    cells[f"{identity}.observed"] = plain(value, 2 if in_points(metric) else 4)
    cells[f"{identity}.n"] = count(n)
    if value is None:
        return str(prediction["missing"])
    if n < int(prediction["min_n"]):
        return "undecided"
    return "supported" if _holds(Decimal(repr(round(value, 10))), rule) else "refuted"


def _holds(value: Decimal, rule: Mapping[str, Any]) -> bool:
    threshold = Decimal(str(rule["threshold"]))
    return {
        ">": value > threshold,
        ">=": value >= threshold,
        "<": value < threshold,
        "<=": value <= threshold,
    }[rule["op"]]
