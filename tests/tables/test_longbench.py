"""LongBench as metrics: in the measure view, as statistics, and as the ledger's numbers from pinned files.

Every number is held against one made from the rows by hand.
"""

import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from ridgefill import stats
from ridgefill.measures import Measures
from ridgefill.provider import ridgefill_measures
from ridgefill.recompute import recompute
from ridgefill.results import FILES, read_table
from ridgefill.tables import render

HERE = Path(__file__).parent
NAIVE = runpy.run_path(str(HERE.parent / "naive" / "bootstrap.py"))
MADE = runpy.run_path(str(HERE / "longbench_rows.py"))
V1, V2, SCHEMAS, OUTCOMES, change, cells = (
    MADE[name] for name in ("V1", "V2", "SCHEMAS", "OUTCOMES", "change", "cells")
)
WHERE = {"model": "tiny", "split": 19, "subset": None}
POINTS = {"r": 100.0, "w": 0.0, "n": 0.0, "e": None}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run with both suites; shared, so tests must not write into it."""
    return MADE["build"](tmp_path_factory.mktemp("longbench") / "synthetic_split19")


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A private copy of it, rendered without figures."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    return Path(shutil.copytree(made, tmp_path / made.name))


def rows_of(folder, name, arm="ridgefill", split=19):
    """Rows of one arm in the order of groups and items."""
    rows = read_table(folder / name, SCHEMAS[name]).to_pylist()
    keys = ("dataset", "sample") if name == V1 else ("difficulty", "length", "domain", "item")
    return sorted(
        (row for row in rows if (row["arm"], row["split"]) == (arm, split)), key=lambda row: [row[key] for key in keys]
    )


def percentiles(folder, values, levels):
    """The percentile bootstrap over all items, one resample at a time."""
    settings = Measures(folder).settings
    counts = stats.count_matrix((0,) * len(values), settings.resamples, settings.seed)
    return NAIVE["percentile"](counts, [values], NAIVE["average"], levels)


def test_v1_scores_are_means_by_dataset_and_over_all_items(folder):
    """By hand, at both splits; the interval is the BCa one within datasets; an item without score is left out."""

    def unscored(row):
        if (row["dataset"], row["sample"], row["arm"]) == ("qmsum", 2, "ridgefill"):
            row.update(score=None, status="not finite")

    change(folder, V1, unscored)
    measures = Measures(folder)
    for split in (19, 22):
        for subset in (None, "hotpotqa", "passage_count", "qmsum"):
            chosen = [row for row in rows_of(folder, V1, split=split) if subset in (None, row["dataset"])]
            points = [100 * row["score"] for row in chosen if row["score"] is not None]
            found = measures.statistic("longbench_v1", "ridgefill", None, split, subset)
            assert (found.n, found.estimate) == (len(points), pytest.approx(np.mean(points), abs=1e-9))
            assert (found.status == "incomplete") == (subset in (None, "qmsum"))
    kept = [row for row in rows_of(folder, V1) if row["score"] is not None]
    counts = stats.count_matrix(tuple(row["dataset"] for row in kept), 400, 0)
    values, strata = [100 * row["score"] for row in kept], [row["dataset"] for row in kept]
    ends, _ = NAIVE["bca"](counts, [values], strata, NAIVE["average"], (0.025, 0.975))
    found = measures.statistic("longbench_v1", "ridgefill", None, 19)
    assert (found.ci_low, found.ci_high) == pytest.approx(tuple(ends), abs=1e-6)


@pytest.mark.parametrize("split", [19, 22])
def test_v2_accuracy_is_over_items_that_wrote_anything(folder, split):
    """No letter counts as wrong, nothing at all does not count; by difficulty, length group and domain too."""
    measures = Measures(folder)
    letters = dict(zip((f"item-{place:03d}" for place in range(24)), OUTCOMES["ridgefill", split], strict=True))
    rows = rows_of(folder, V2, split=split)
    for subset in (None, "easy", "hard", "short", "medium", "long", *MADE["DOMAINS"]):
        chosen = [row for row in rows if subset in (None, row["difficulty"], row["length"], row["domain"])]
        outcomes = [letters[row["item"]] for row in chosen]
        judged = [POINTS[one] for one in outcomes if one != "e"]
        found = measures.statistic("longbench_v2", "ridgefill", None, split, subset)
        assert (found.n, found.estimate) == (len(judged), pytest.approx(sum(judged) / len(judged)))
        assert (found.ci_low, found.ci_high) == pytest.approx(percentiles(folder, judged, (0.025, 0.975)))


def test_v2_differences_pair_items_that_count_for_both(folder):
    """Percentiles over the items that both arms wrote something for; the bound is theirs too, or the binomial floor."""
    own, exact = (rows_of(folder, V2, *key) for key in (("ridgefill", 19), ("exact", None)))
    pairs = [(a["correct"], b["correct"]) for a, b in zip(own, exact, strict=True)]
    values = [100.0 * (a - b) for a, b in pairs if a is not None and b is not None]
    found = Measures(folder).statistic("longbench_v2", "ridgefill", "exact", 19)
    low, high, bound = percentiles(folder, values, (0.025, 0.975, 0.05))
    assert (found.n, found.status, found.estimate) == (22, "incomplete", pytest.approx(np.mean(values)))
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high))
    assert found.lower_bound == pytest.approx(min(bound, -stats.binomial_floor(22)))
    against = Measures(folder).statistic("longbench_v2", "identity", "exact", 19)
    assert against.lower_bound < -stats.binomial_floor(23)
    same = Measures(folder).statistic("longbench_v2", "ridgefill", "ridgefill", 19)
    assert (same.ci_low, same.ci_high, same.lower_bound) == (0.0, 0.0, -stats.binomial_floor(23))


def test_v2_intervals_do_not_know_groups(folder):
    """A domain of every item's own: were domains strata, nothing could be resampled and no interval had a width."""
    before = Measures(folder).statistic("longbench_v2", "identity", None, 19)
    change(folder, V2, lambda row: row.update(domain=row["item"]))
    after = Measures(folder).statistic("longbench_v2", "identity", None, 19)
    assert after.estimate == before.estimate
    assert after.ci_low < after.estimate < after.ci_high


def test_claims_are_decided_on_pinned_files(folder):
    """The ledger's numbers are the report's, ``missing`` when the suite's file is not pinned; verdicts recompute."""
    lookup = ridgefill_measures(folder, [*FILES, V1, V2])
    for metric, subset in (("longbench_v1", "qmsum"), ("longbench_v2", "hard"), ("ruler_filled", None)):
        where = WHERE | {"subset": subset}
        found = lookup(metric, "ridgefill", "identity", where)
        assert found == Measures(folder).lookup(metric, "ridgefill", "identity", where)
        assert found["estimate"] is not None
    assert ridgefill_measures(folder, [*FILES, V1])("longbench_v2", "exact", None, WHERE)["status"] == "missing"
    render(folder)
    for name, n, entry in (("answers", 23, "main/23"), ("hard-ones", 11, "main/23"), ("scores", 21, "main/21")):
        cell = cells(folder)[f"verdicts.{name}.0.observed"]
        assert (cell["n"], cell["ledger_entry"]) == (n, entry)
    assert not recompute(folder).mismatches
