"""The measurements of a results folder as plain dictionaries, read with pyarrow alone (no SQL)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.recompute.bootstrap import bca, by_stratum, sum_exactly
from ridgefill.recompute.percentile import percentile
from ridgefill.recompute.served import served_items
from ridgefill.recompute.shares import bca_share, pairs_by_stratum
from ridgefill.results import read_folder, read_json

Items = dict[str, tuple[str, float | None]]
# Arms that are compared at a split of their own.
ANY_SPLIT = ("exact", "pop_native")


@dataclass(frozen=True)
class Found:
    """A mean or mean difference: estimate, ends of the 95 % interval, one-sided bound, and items used."""

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    bound: float | None = None
    n: int = 0


class Data:
    """All rows of a folder, and per-item values by (metric, arm, split)."""

    def __init__(self, results_dir: Path) -> None:
        tables = read_folder(results_dir)
        self.rows: dict[str, list[dict[str, Any]]] = {name: t.to_pylist() for name, t in tables.items()}
        settings = read_json(Path(results_dir) / "experiment.json")
        try:
            self.experiment, self.model = settings["experiment"], settings["model"]
            self.split = int(self.experiment["split"])
            self.resamples = int(self.experiment["statistics"]["resamples"])
            self.seed = int(self.experiment["statistics"]["seed"])
        except (KeyError, TypeError, ValueError) as error:
            raise ResultsError(f"{results_dir}/experiment.json: {error!r} is missing or malformed") from error
        self.items: dict[tuple[str, str, int | None], Items] = {}
        self._add_ruler()
        self._add_documents()
        self._add_agreement()
        self._add_turns()
        self._add_longbench()
        for metric, row, item, stratum, value in served_items(self.rows):
            self._put(metric, row, item, stratum, value)

    def _put(self, metric: str, row: dict[str, Any], item: str, stratum: str, value: float | None) -> None:
        kept = self.items.setdefault((metric, row["arm"], row["split"]), {})
        if item in kept:
            raise ResultsError(f"{metric} has two rows for {item} of {row['arm']} at split {row['split']}")
        kept[item] = (stratum, value)

    def _add_ruler(self) -> None:
        for row in self.rows["ruler/samples.parquet"]:
            item = f"{row['task']}/{row['length']}/{row['sample']:05d}"
            stratum = f"{row['task']}@{row['length']}"
            scored = row["status"] == "ok" and row["score"] is not None
            value = 100.0 * row["score"] if scored else None
            metrics = ["ruler_all", f"ruler_{row['task']}"] + ["ruler_filled"] * row["in_filled_region"]
            for metric in metrics:
                self._put(metric, row, item, stratum, value)

    def _add_documents(self) -> None:
        losses: dict[tuple[str, str, int | None, str, str], list[float | None]] = {}
        for row in self.rows["documents/tokens.parquet"]:
            value = row["nll"] if row["status"] == "ok" else None
            kinds = ["nll_all"] + ["nll_novel"] * row["novel"] + ["nll_key"] * row["key"]
            for metric in kinds:
                key = (metric, row["arm"], row["split"], row["document"], row["domain"])
                losses.setdefault(key, []).append(value)
        for (metric, arm, split, document, domain), values in losses.items():
            whole = [value for value in values if value is not None]
            mean = sum_exactly(whole) / len(whole) if len(whole) == len(values) else None
            self._put(metric, {"arm": arm, "split": split}, document, domain, mean)

    def _add_agreement(self) -> None:
        tokens: dict[tuple[str, str, int | None, str, int], list[dict[str, Any]]] = {}
        for row in self.rows.get("agreement/tokens.parquet", ()):
            key = (row["variant"], row["arm"], row["split"], row["document"], row["prompt_tokens"])
            tokens.setdefault(key, []).append(row)
        for (variant, arm, split, document, length), rows in tokens.items():
            name = "agreement" if variant == "greedy" else f"agreement_{variant}"
            place, stratum = {"arm": arm, "split": split}, f"length@{length}"
            hits = 100.0 * sum(row["top1"] for row in rows) / len(rows)
            self._put(f"{name}_top1", place, document, stratum, hits)
            values = [row["kl"] for row in rows if row["kl"] is not None]
            whole = len(values) == len(rows)
            self._put(f"{name}_kl", place, document, stratum, sum_exactly(values) / len(values) if whole else None)
            self._put(f"{name}_kl_median", place, document, stratum, median(values) if whole else None)

    def _add_turns(self) -> None:
        for row in self.rows.get("turns/samples.parquet", ()):
            item = f"{row['task']}/{row['length']}/{row['sample']:05d}"
            for turn, score in (("turn1", row["first_score"]), ("turn2", row["second_score"])):
                if row["in_filled_region"]:
                    value = None if score is None or row["status"] != "ok" else 100.0 * score
                    self._put(turn, row, item, f"{row['task']}@{row['length']}", value)

    def _add_longbench(self) -> None:
        for row in self.rows.get("longbench_v1/samples.parquet", ()):
            scored = row["status"] == "ok" and row["score"] is not None
            value = 100.0 * row["score"] if scored else None
            self._put("longbench_v1", row, f"{row['dataset']}/{row['sample']:05d}", row["dataset"], value)
        for row in self.rows.get("longbench_v2/samples.parquet", ()):
            groups = "@".join((row["difficulty"], row["length"], row["domain"]))
            counts = row["status"] in ("ok", "no_answer") and row["correct"] is not None
            self._put("longbench_v2", row, row["item"], groups, 100.0 * row["correct"] if counts else None)

    def at(self, metric: str, arm: str, split: int) -> Items:
        """Items of an arm at ``split``, or at the arm's own."""
        if arm not in ANY_SPLIT:
            return self.items.get((metric, arm, split), {})
        merged: Items = {}
        for (name, other, _), items in self.items.items():
            if name == metric and other == arm:
                merged.update(items)
        return merged

    def arms(self, split: int) -> list[str]:
        """Arms measured at ``split`` or at their own."""
        return sorted({a for _, a, s in self.items if s == split or a in ANY_SPLIT})

    def found(self, metric: str, arm: str, baseline: str | None, split: int, subset: str | None = None) -> Found:
        """Statistics over the items of the exact arm (and of the arms asked for)."""
        own, other = self.at(metric, arm, split), self.at(metric, baseline or arm, split)
        everything = {**self.at(metric, "exact", split), **other, **own}
        labels, values = [], []
        for item, stratum in sorted((key, kept[0]) for key, kept in everything.items()):
            if subset is not None and subset not in (stratum, *_parts(stratum)):
                continue
            left, right = (side.get(item, (stratum, None))[1] for side in (own, other))
            if left is None or right is None:
                continue
            labels.append(stratum)
            values.append(left if baseline is None else left - right)
        return self.describe(labels, values, baseline is not None, answers(metric), metric.startswith("longbench_v2"))

    def describe(
        self, labels: list[str], values: list[float], paired: bool, points: bool, over_items: bool = False
    ) -> Found:
        """Mean, interval and, for a paired difference, the one-sided bound with its floor for points.

        over_items: the interval and the bound are percentiles over all items instead of BCa within the labels.
        """
        if not values:
            return Found()
        strata = by_stratum(labels, values)
        flat = [value for stratum in strata for value in stratum]
        levels = (0.025, 0.975, 0.05)
        if over_items:
            low, high, bound = percentile(flat, levels, self.resamples, self.seed)
        else:
            low, high, bound = bca(strata, levels, self.resamples, self.seed)
        if points:
            bound = min(bound, -100.0 * (1.0 - 0.05 ** (1.0 / len(flat))))
        return Found(sum_exactly(flat) / len(flat), low, high, bound if paired else None, len(flat))

    def share(self, metric: str, arm: str, split: int, least: int = 0) -> Found:
        """The share of the fill's distance to exact that ``arm`` takes away, over the items of the exact arm."""
        sides = [self.at(metric, name, split) for name in (arm, "ridgefill", "exact")]
        labels, pairs = [], []
        for item, (stratum, _) in sorted(sides[2].items()):
            own, filled, exact = (side.get(item, (stratum, None))[1] for side in sides)
            if own is None or filled is None or exact is None:
                continue
            labels.append(stratum)
            above = (own - exact, filled - exact)
            pairs.append((-above[0], -above[1]) if metric.startswith("ruler") else above)
        if not pairs:
            return Found()
        share, ends = bca_share(pairs_by_stratum(labels, pairs), (0.025, 0.975), self.resamples, self.seed, least)
        low, high = ends or (None, None)
        return Found(share, low, high, None, len(pairs))


def in_points(metric: str) -> bool:
    """Whether a metric is printed in points."""
    return answers(metric) or metric.endswith("_top1") or metric.startswith("served")


def answers(metric: str) -> bool:
    """Whether a metric's items are scored answers, in points."""
    return metric.startswith(("ruler", "turn", "longbench"))


def median(values: Iterable[float]) -> float | None:
    """Middle value, or the mean of the two middle ones."""
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else 0.5 * (ordered[middle - 1] + ordered[middle])


def _parts(stratum: str) -> tuple[str, ...]:
    return tuple(stratum.split("@")) if "@" in stratum else ()
