"""What the tables of agreement and of two turns must hold, from their Parquet rows in plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgefill.recompute.bootstrap import sum_exactly
from ridgefill.recompute.data import ANY_SPLIT, Data, Found

METRICS = ("agreement_top1", "agreement_kl", "agreement_kl_median", "turn1", "turn2")
GROUPS = {"copy_low": (0, 20), "copy_middle": (20, 50), "copy_high": (50, 101)}
"""Per cent of a document's tokens that are copyable: from, and below."""


def suite_numbers(data: Data) -> dict[str, Found]:
    """Means with their intervals, by cell."""
    found: dict[str, Found] = {}
    here = {arm for metric, arm, split in data.items if metric in METRICS and (split == data.split or arm in ANY_SPLIT)}
    for metric in METRICS:
        for arm in here if data.at(metric, "exact", data.split) else ():
            itself = arm == "exact" and metric.startswith("agreement")
            if not itself and data.at(metric, arm, data.split):
                found[f"suites.{arm}.{metric}"] = data.found(metric, arm, None, data.split)
    for arm in {arm for metric, arm, _ in data.items if metric == "agreement_text_kl"} & here - {"exact"}:
        found[f"post_prompt.{arm}.top1"] = data.found("agreement_text_top1", arm, None, data.split)
        found[f"post_prompt.{arm}.kl"] = data.found("agreement_text_kl", arm, None, data.split)
    return found


def post_prompt_numbers(data: Data) -> dict[str, float | None]:
    """Quantiles over all tokens, and means of the groups of documents, by cell."""
    documents: dict[str, dict[tuple[str, int], list[dict[str, Any]]]] = {}
    for row in data.rows.get("agreement/tokens.parquet", ()):
        arm = row["arm"]
        if row["variant"] == "text" and arm != "exact" and (row["split"] == data.split or arm in ANY_SPLIT):
            documents.setdefault(arm, {}).setdefault((row["document"], row["prompt_tokens"]), []).append(row)
    numbers: dict[str, float | None] = {}
    for arm, each in documents.items():
        values = [row["kl"] for rows in each.values() for row in rows if row["kl"] is not None]
        numbers[f"post_prompt.{arm}.median"] = quantile(values, 50)
        numbers[f"post_prompt.{arm}.p99"] = quantile(values, 99)
        for name, (least, below) in GROUPS.items():
            means = [_mean(rows) for rows in each.values() if least <= _copied(rows) < below]
            known = [mean for mean in means if mean is not None]
            numbers[f"post_prompt.{arm}.{name}"] = sum_exactly(known) / len(known) if known else None
    return numbers


def quantile(values: Sequence[float], per_cent: int) -> float | None:
    """The value below which that many per cent lie, between two neighbours in proportion."""
    ordered = sorted(values)
    if not ordered:
        return None
    whole, part = divmod(per_cent * (len(ordered) - 1), 100)
    upper = ordered[min(whole + 1, len(ordered) - 1)]
    return ordered[whole] + (upper - ordered[whole]) * part / 100


def _copied(rows: Sequence[dict[str, Any]]) -> float:
    copied = sum(bool(row["copyable"]) for row in rows)
    return 100 * copied / len(rows)


def _mean(rows: Sequence[dict[str, Any]]) -> float | None:
    values = [row["kl"] for row in rows if row["kl"] is not None]
    return sum_exactly(values) / len(values) if len(values) == len(rows) else None
