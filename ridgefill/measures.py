"""Statistics of the measured quantities, from a results folder: one mean or one paired difference at a time.

A metric is a plain name: ``ruler_all``, ``ruler_filled`` (needles all in the filled region), ``ruler_<task>`` in
points 0..100 over samples; ``nll_all``, ``nll_novel``, ``nll_key`` in nats per token, a mean per document and then
over documents. Folders that have these suites: ``agreement_top1`` (points), ``agreement_kl`` (nats) and
``agreement_kl_median`` (a document's median instead of its mean) along the exact arm's greedy tokens,
``agreement_text_...`` along the document's own; ``turn1`` and ``turn2`` (points), the first and the second answer
where all needles lie in the filled region; ``served_...``, see the queries of that name; ``longbench_v1`` and
``longbench_v2`` (points), the mean score of answers and the share of right ones. Intervals are 95 % and resample
within task and length, within domain, within prompt length (agreement), within phase or length (``served_...``) or
within dataset (``longbench_v1``); those of ``longbench_v2`` are percentiles over all items (EVALUATION section 2).
DuckDB selects in a fixed order; every sum is an ``fsum``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import duckdb
import numpy as np

from ridgefill import stats
from ridgefill.errors import ResultsError
from ridgefill.results import connect, read_json
from ridgefill.stats.intervals import Method

# Arms that have one split of their own, whatever split the others are compared at.
OWN_SPLIT = ("exact", "pop_native")
MEASURE_SQL = Path(__file__).with_name("measure.sql")


@dataclass(frozen=True)
class Stat:
    """A mean or mean difference with its 95 % interval; numbers are None when nothing was measured.

    status: ``ok``; ``constant`` (all items equal, zero-width interval); ``incomplete`` (some items of the set
    have no value in one of the arms and are left out); ``missing`` (no item has).
    """

    estimate: float | None
    ci_low: float | None
    ci_high: float | None
    lower_bound: float | None
    n: int
    status: str


MISSING = Stat(None, None, None, None, 0, "missing")


def in_points(metric: str) -> bool:
    """Whether a metric is counted in points of 100; else it is in nats."""
    return scores_samples(metric) or metric.endswith("_top1") or metric.startswith("served")


def scores_samples(metric: str) -> bool:
    """Whether a metric's items are answers scored from 0 to 100, so that the binomial floor holds for it."""
    return metric.startswith(("ruler", "turn", "longbench"))


def over_items(metric: str) -> bool:
    """Whether a metric's interval is the percentile bootstrap over all items, whatever group they are in."""
    return metric.startswith("longbench_v2")


class Bootstrap(Protocol):
    """What an interval depends on besides its values."""

    @property
    def resamples(self) -> int:
        """How many resamples are drawn."""

    @property
    def seed(self) -> int:
        """What the random numbers are fixed by."""


@dataclass(frozen=True)
class Settings:
    """What the statistics need to know of an experiment, read from ``experiment.json``."""

    experiment: str
    title: str
    model: str
    split: int
    tail: int
    layers: int
    resamples: int
    seed: int


def load_settings(results_dir: Path) -> Settings:
    """Read ``experiment.json``: keys ``experiment`` (with its name) and ``model``, as resolved."""
    path = Path(results_dir) / "experiment.json"
    return settings_from(read_json(path), path)


def settings_from(data: Any, path: Path) -> Settings:
    """The settings in the parsed ``experiment.json`` found at ``path``; ResultsError when one is missing."""
    try:
        experiment, model = data["experiment"], data["model"]
        return Settings(
            experiment=str(experiment["name"]),
            title=str(experiment["title"]),
            model=str(model["name"]),
            split=int(experiment["split"]),
            tail=int(experiment["tail"]),
            layers=int(model["geometry"]["layers"]),
            resamples=int(experiment["statistics"]["resamples"]),
            seed=int(experiment["statistics"]["seed"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ResultsError(
            f"{path}: {error!r} is missing or malformed; run the experiment's first step again"
        ) from error


def item_value(parts: Sequence[float] | None) -> float | None:
    """Mean of an item's parts (one score, or its token losses), summed exactly; None when it failed."""
    return math.fsum(parts) / len(parts) if parts else None


def describe(
    strata: Sequence[str],
    values: Sequence[float | None],
    against: Sequence[float | None] | None,
    settings: Bootstrap,
    accuracy: bool = False,
    method: Method = "bca",
) -> Stat:
    """Mean of ``values``, or of ``values - against`` paired by position, stratified by ``strata``.

    Items without a value on either side are left out and the status says so. ``accuracy`` adds the binomial
    floor to the one-sided lower bound of a difference (points). ``method`` is that of the interval and the bound.
    """
    other = values if against is None else against
    keep = [i for i in range(len(values)) if values[i] is not None and other[i] is not None]
    if not keep:
        return MISSING
    a = np.array([values[i] for i in keep], dtype=np.float64)
    labels = [strata[i] for i in keep]
    options: dict[str, Any] = {"strata": labels, "resamples": settings.resamples, "seed": settings.seed}
    if against is None:
        found, bound = stats.mean_interval(a, **options, method=method), None
    else:
        b = np.array([against[i] for i in keep], dtype=np.float64)
        found = stats.paired_contrast(a, b, **options, method=method)
        bound = float(stats.lower_bound(a, b, accuracy=accuracy, **options, method=method))
    status = "incomplete" if len(keep) < len(values) else found.status
    return Stat(float(found.estimate), float(found.ci_low), float(found.ci_high), bound, len(keep), status)


def describe_metric(
    metric: str,
    strata: Sequence[str],
    values: Sequence[float | None],
    against: Sequence[float | None] | None,
    settings: Bootstrap,
) -> Stat:
    """:func:`describe` with the interval and the bound that EVALUATION section 2 has for ``metric``."""
    if over_items(metric):
        return describe([""] * len(strata), values, against, settings, scores_samples(metric), "percentile")
    return describe(strata, values, against, settings, scores_samples(metric))


def group(rows: Iterable[tuple[Any, ...]], keys: int) -> dict[tuple[Any, ...], list[tuple[Any, ...]]]:
    """Rows by their first ``keys`` columns, in order of appearance; the rest of each row is kept."""
    groups: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[:keys]), []).append(tuple(row[keys:]))
    return groups


class Measures:
    """The measurements of one results folder. Open once; statistics are computed when asked for.

    ``settings`` and ``connection`` replace what would be read from the folder, for a caller that has to know
    where they come from.
    """

    def __init__(
        self,
        results_dir: Path,
        settings: Settings | None = None,
        connection: duckdb.DuckDBPyConnection | None = None,
    ) -> None:
        self.root = Path(results_dir)
        self.settings = load_settings(self.root) if settings is None else settings
        self.connection = connect(self.root) if connection is None else connection

    @cached_property
    def _sql(self) -> str:
        """The query of one statistic over all measurements, which are brought together here once for all of them."""
        self.connection.execute("CREATE TEMP TABLE every_measure AS SELECT * FROM measure")
        return MEASURE_SQL.read_text(encoding="utf-8").replace("FROM measure\n", "FROM every_measure\n")

    def query(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """Rows of a SELECT; ``$name`` in the SQL takes ``parameters['name']``."""
        used = {key: value for key, value in parameters.items() if f"${key}" in sql}
        return self.connection.execute(sql, used).fetchall()

    def statistic(self, metric: str, arm: str, baseline: str | None, split: int, subset: str | None = None) -> Stat:
        """``metric`` of ``arm``, or its paired difference to ``baseline``, at ``split``.

        ``subset`` narrows to one task, one length in tokens, one domain or dataset, or, of ``longbench_v2``, one
        difficulty, length group or domain. The set of items is that of the exact arm, so an item that an arm lacks
        shows as ``incomplete`` and never silently drops out.
        """
        rows = self.query(
            self._sql, metric=metric, arm=arm, baseline=baseline or arm, split=split, subset=subset,
            own=list(OWN_SPLIT),
        )  # fmt: skip
        strata = [row[0] for row in rows]
        values = [item_value(row[2]) for row in rows]
        against = None if baseline is None else [item_value(row[3]) for row in rows]
        return describe_metric(metric, strata, values, against, self.settings)

    def lookup(
        self, metric: str, arm: str, baseline: str | None, where: Mapping[str, Any]
    ) -> dict[str, float | int | str | None]:
        """What a decision rule asks for: estimate, ci_low, ci_high, lower_bound, n and status by name.

        ``where`` is the rule's set: model, split, subset, each None or absent when not narrowed. Another
        model's set is ``missing``.
        """
        if (where.get("model") or self.settings.model) != self.settings.model:
            return dict(vars(MISSING))
        split, subset = where.get("split"), where.get("subset")
        found = self.statistic(
            metric,
            arm,
            baseline,
            self.settings.split if split is None else int(split),
            None if subset is None else str(subset),
        )
        return dict(vars(found))
