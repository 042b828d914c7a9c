"""Statistics read from a results folder: the right items, paired, and never silently fewer."""

import math
import shutil

import numpy as np
import pytest

from ridgefill.errors import ResultsError
from ridgefill.measures import Measures, item_value
from ridgefill.recompute.data import Data
from ridgefill.results import connect, read_table, write_table
from ridgefill.stats import paired_contrast

MARKS = {"git_commit": "c" * 40, "config_sha256": "d" * 64, "ledger_entry": "3"}


@pytest.fixture(scope="module")
def measures(bare):
    return Measures(bare)


def ruler(bare):
    return read_table(bare / "ruler/samples.parquet", "ruler_samples").to_pylist()


def test_filled_region_is_a_mean_over_its_samples_only(bare, measures):
    """ruler_filled averages, in points, the samples whose needles all lie in the filled region."""
    scores = [r["score"] for r in ruler(bare) if r["in_filled_region"] and (r["arm"], r["split"]) == ("ridgefill", 19)]
    found = measures.statistic("ruler_filled", "ridgefill", None, 19)
    assert found.n == len(scores)
    assert found.estimate == pytest.approx(100 * math.fsum(scores) / len(scores), abs=1e-9)
    assert found.ci_low < found.estimate < found.ci_high


def test_a_contrast_pairs_samples_and_resamples_within_task(bare, measures):
    """The interval is that of paired_contrast on differences matched by sample, stratified by task."""
    rows = {(r["arm"], r["split"], r["task"], r["sample"]): r["score"] for r in ruler(bare)}
    keys = sorted((t, s) for a, _, t, s in rows if a == "exact")
    a, b = ([100 * rows[arm, 19, *key] for key in keys] for arm in ("ridgefill", "identity"))
    expected = paired_contrast(np.array(a), np.array(b), [k[0] for k in keys], 2000, 0)
    found = measures.statistic("ruler_all", "ridgefill", "identity", 19)
    assert (found.estimate, found.ci_low, found.ci_high) == (
        expected.estimate,
        expected.ci_low,
        expected.ci_high,
    )


def test_losses_weight_documents_equally_and_key_needs_key_tokens(measures):
    """Twelve documents have a loss, eleven a key-token loss."""
    assert measures.statistic("nll_all", "ridgefill", "exact", 19).n == 12
    assert measures.statistic("nll_key", "ridgefill", "exact", 19).n == 11


def test_pop_is_found_at_its_own_split(measures):
    """An arm with its own split is compared whatever the split asked for."""
    assert measures.statistic("ruler_all", "pop_native", "exact", 19).n == 40


def test_lookup_answers_what_a_rule_asks_and_nothing_else(measures):
    """Another model, an arm that was not run, and a subset without items are missing; subsets narrow."""
    assert measures.lookup("ruler_all", "ridgefill", None, {"model": "other", "split": 19})["status"] == "missing"
    assert measures.lookup("ruler_all", "kva", "exact", {"model": "tiny", "split": 19})["estimate"] is None
    assert measures.lookup("nll_all", "ridgefill", "exact", {"subset": "legal"})["n"] == 3
    assert measures.lookup("ruler_all", "ridgefill", None, {"split": None, "subset": "niah_multikey_1"})["n"] == 10
    whole = measures.lookup("ruler_all", "ridgefill", "exact", {"model": "tiny", "split": 19})
    assert set(whole) == {"estimate", "ci_low", "ci_high", "lower_bound", "n", "status"}
    assert whole["lower_bound"] <= -100 * (1 - 0.05 ** (1 / 40))


def test_a_failed_sample_is_left_out_of_both_arms_and_said_so(bare, tmp_path):
    """One failed sample makes its contrast incomplete with one pair less, in both code paths."""
    folder = shutil.copytree(bare, tmp_path / "r")
    rows = ruler(folder)
    failed = next(r for r in rows if (r["arm"], r["split"]) == ("ridgefill", 19))
    failed.update(score=None, status="failed")
    write_table(folder / "ruler/samples.parquet", "ruler_samples", rows, MARKS)
    found = Measures(folder).statistic("ruler_all", "ridgefill", "exact", 19)
    assert (found.n, found.status) == (39, "incomplete")
    again = Data(folder).found("ruler_all", "ridgefill", "exact", 19)
    assert (again.n, again.low) == (39, pytest.approx(found.ci_low, abs=1e-9))


def test_item_value_is_an_exactly_summed_mean():
    """The mean of a document's losses does not depend on their order."""
    parts = [1e16, 1.0, -1e16, 3.0]
    assert item_value(parts) == item_value(parts[::-1]) == 1.0
    assert item_value(None) is None


def test_views_open_a_folder_whose_name_needs_quoting(bare, tmp_path):
    """A results folder may have a quote, a comma or an equals sign in its name."""
    folder = shutil.copytree(bare, tmp_path / "it's, split=19")
    assert connect(folder).execute("SELECT count(*) FROM document_tokens").fetchone() == (12 * 512 * 15,)


def test_an_incomplete_folder_names_the_missing_file(bare, tmp_path):
    """A folder without one of its Parquet files is one sentence, not a traceback from DuckDB."""
    folder = shutil.copytree(bare, tmp_path / "r")
    (folder / "lam/lam_curve.parquet").unlink()
    with pytest.raises(ResultsError, match=r"lam_curve\.parquet does not exist"):
        connect(folder)
