"""The table of splices: there only when such arms were run, right in every number, and recomputed by other code."""

import csv
import json
import math
import re
import shutil

import numpy as np
import pytest

from ridgefill import stats
from ridgefill.recompute import recompute
from ridgefill.recompute.shares import LEAST_SAMPLES, MISSING_AT_MOST, bca_share, pairs_by_stratum
from ridgefill.results import FILES, metadata_of, read_table, write_table
from ridgefill.stats.ratios import FEWEST_DIFFERING, MOST_UNDEFINED
from ridgefill.tables import render

RULER, TOKENS = "ruler/samples.parquet", "documents/tokens.parquet"


@pytest.fixture(scope="module")
def drawn(spliced, tmp_path_factory):
    """The run of splices with its report, without figures; shared, so tests must not write into it."""
    folder = shutil.copytree(spliced, tmp_path_factory.mktemp("drawn") / spliced.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
        render(folder)
    return folder


@pytest.fixture
def mine(spliced, monkeypatch, tmp_path):
    """A private copy of the run, to be changed and rendered without figures."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    return shutil.copytree(spliced, tmp_path / spliced.name)


def cells(folder):
    return json.loads((folder / "cells.json").read_text())["cells"]


def change(folder, name, edit):
    """Let ``edit`` change, or with False drop, each row of a Parquet file."""
    table = read_table(folder / name, FILES[name])
    kept = [row for row in table.to_pylist() if edit(row) is not False]
    write_table(folder / name, FILES[name], kept, metadata_of(table))


def losses(folder, arm):
    """Novel-token loss of every document under an arm, by document."""
    found = {}
    for row in read_table(folder / TOKENS, "document_tokens").to_pylist():
        if row["arm"] == arm and row["novel"]:
            found.setdefault((row["domain"], row["document"]), []).append(row["nll"])
    return {key: math.fsum(values) / len(values) for key, values in found.items()}


def test_rows_are_the_arms_that_were_run_under_the_fill(drawn):
    """RidgeFill first, without shares; then splices and scales in the paper's order, with the paper's columns."""
    rows = list(csv.DictReader((drawn / "tables/splices.csv").open(encoding="utf-8")))
    assert [row["arm"] for row in rows] == [
        "RidgeFill", "RidgeFill + exact keys", "RidgeFill + exact values", "RidgeFill + exact keys, values and states",
        "RidgeFill + key scale (tail)", "RidgeFill + value scale (tail)",
    ]  # fmt: skip
    assert {key for key in rows[0] if not key.endswith(("_low", "_high"))} == {
        "arm", "nll_novel", "loss_removed", "ruler_filled", "gap_closed",
    }  # fmt: skip
    assert (rows[0]["loss_removed"], rows[0]["gap_closed"]) == ("\u2013", "\u2013")
    for row in rows[1:]:
        assert float(row["loss_removed_low"]) <= float(row["loss_removed"]) <= float(row["loss_removed_high"])


def test_loss_removed_is_the_share_of_the_fills_loss(drawn):
    """By hand from the token losses, in percent, and negative where a scale makes it worse."""
    exact, filled = losses(drawn, "exact"), losses(drawn, "ridgefill")
    for arm in ("splice_exact_keys", "scale_values_tail"):
        own = losses(drawn, arm)
        left, whole = (math.fsum(side[key] - exact[key] for key in exact) for side in (own, filled))
        cell = cells(drawn)[f"splices.{arm}.loss_removed"]
        assert cell["value"] == pytest.approx(1 - left / whole, abs=1e-9)
        assert cell["text"].replace("\u2212", "-") == f"{100 * (1 - left / whole):.1f}"
        assert cell["n"] == 12
    assert cells(drawn)["splices.scale_values_tail.loss_removed"]["text"].startswith("\u2212")


def test_gap_closed_is_the_share_of_the_distance_to_exact(drawn):
    """By hand from the scores of the filled-region samples, with an interval because enough of them differ."""
    scores, differ = {}, 0
    for row in read_table(drawn / RULER, "ruler_samples").to_pylist():
        if row["in_filled_region"]:
            scores.setdefault(row["arm"], []).append(row["score"])
    for left, right in zip(scores["exact"], scores["ridgefill"], strict=True):
        differ += left != right
    exact, filled, own = (np.mean(scores[arm]) for arm in ("exact", "ridgefill", "splice_exact_values"))
    cell = cells(drawn)["splices.splice_exact_values.gap_closed"]
    assert cell["value"] == pytest.approx(1 - (exact - own) / (exact - filled), abs=1e-9)
    assert differ >= FEWEST_DIFFERING
    assert "splices.splice_exact_values.gap_closed.low" in cells(drawn)


def test_everything_spliced_removes_all_of_it_and_says_so(drawn):
    """The cache is exact then: 100 %, of zero width and marked."""
    cell = cells(drawn)["splices.splice_exact_all.loss_removed"]
    assert (cell["value"], cell["text"], cell["status"]) == (1.0, "100.0", "constant")
    line = next(t for t in (drawn / "tables/splices.md").read_text().splitlines() if "keys, values and" in t)
    assert "100.0\u2020 [100.0, 100.0]" in line


def test_the_report_has_the_table_only_when_such_arms_were_run(drawn, rendered):
    """A section and a link here; nowhere a trace of either in a run without splices."""
    page = (drawn / "report.html").read_text()
    assert page.count('href="#splices"') == page.count('<section id="splices">') == 1
    assert 'data-cell="splices.splice_exact_keys.gap_closed"' in page
    assert "splices" not in (rendered / "report.html").read_text()
    assert not (rendered / "tables/splices.md").exists()
    assert not [identity for identity in cells(rendered) if identity.startswith("splices.")]


def test_recompute_agrees_in_every_number_of_the_table(drawn):
    """Other code, same numbers: five arms with all three ends of four columns, and the fill with two."""
    found = recompute(drawn)
    assert found.mismatches == ()
    assert found.counts["splices"] == 6 * 6 + 5 * 6


def test_a_changed_digit_of_the_table_is_found_and_named(mine):
    """In the report, in Markdown and in CSV."""
    render(mine)
    for name, pattern in (
        ("report.html", r'data-cell="splices.scale_keys_tail.loss_removed.low">[^<]*?(\d)<'),
        ("tables/splices.md", r"key scale \(tail\) \|[^|]*\| (\d)"),
        ("tables/splices.csv", r"key scale \(tail\),[^,]*,[^,]*,[^,]*,(\d)"),
    ):
        path = mine / name
        text = path.read_text()
        place = re.search(pattern, text).start(1)
        path.write_text(f"{text[:place]}{(int(text[place]) + 1) % 10}{text[place + 1 :]}")
        named = {m.cell for m in recompute(mine).mismatches if m.file == name}
        assert len(named) == 1
        assert named.pop().startswith("splices.scale_keys_tail.loss_removed")
        path.write_text(text)


def test_too_few_differing_samples_leave_a_gap_without_an_interval(mine):
    """With 20 samples left on which exact and the fill differ, the share is printed, marked, and agrees."""
    seen = {}
    for row in read_table(mine / RULER, "ruler_samples").to_pylist():
        seen.setdefault((row["task"], row["sample"]), {})[row["arm"]] = (row["score"], row["in_filled_region"])
    differing = [key for key, arms in seen.items() if arms["exact"][1] and arms["exact"][0] != arms["ridgefill"][0]]
    spare = set(differing[20:])
    change(mine, RULER, lambda row: (row["task"], row["sample"]) not in spare)
    render(mine)
    cell = cells(mine)["splices.splice_exact_keys.gap_closed"]
    assert (cell["status"], cell["value"] is None) == ("too_few", False)
    assert "splices.splice_exact_keys.gap_closed.low" not in cells(mine)
    assert f"{cell['text']}\u00a7 |" in (mine / "tables/splices.md").read_text()
    assert recompute(mine).mismatches == ()


def test_documents_that_a_splice_failed_on_are_left_out_and_marked(mine):
    """One failed document: eleven pairs, incomplete, in both code paths; the other arms keep twelve."""

    def fail(row):
        if (row["arm"], row["document"]) == ("splice_exact_keys", "code-0"):
            row.update(nll=None, status="failed")

    change(mine, TOKENS, fail)
    render(mine)
    cell = cells(mine)["splices.splice_exact_keys.loss_removed"]
    assert (cell["n"], cell["status"]) == (11, "incomplete")
    assert cells(mine)["splices.splice_exact_values.loss_removed"]["n"] == 12
    assert recompute(mine).mismatches == ()


def test_a_fill_that_loses_nothing_has_no_share(mine):
    """With the fill at exact's losses there is nothing to remove: not a number, in both code paths."""
    exact = {}
    for row in read_table(mine / TOKENS, "document_tokens").to_pylist():
        if row["arm"] == "exact":
            exact[row["document"], row["position"]] = row["nll"]

    def equal(row):
        if row["arm"] == "ridgefill":
            row["nll"] = exact[row["document"], row["position"]]

    change(mine, TOKENS, equal)
    render(mine)
    cell = cells(mine)["splices.splice_exact_keys.loss_removed"]
    assert (cell["value"], cell["text"], cell["status"]) == (None, "n/a", "undefined")
    assert recompute(mine).mismatches == ()


@pytest.mark.parametrize("seed", range(6))
def test_both_bootstraps_of_a_share_agree(seed):
    """Dense and sparse, fixed and harmful shares, wholes that some resamples lack: ends, or none, alike."""
    rng = np.random.default_rng(seed)
    strata = [f"s{i % 3}" for i in range(31)]
    whole = [rng.gamma(2.0, 0.2, 31), rng.integers(0, 2, 31) * 50.0, rng.normal(0.4, 1.0, 31), rng.gamma(0.3, 1.0, 31),
             np.arange(31.0), np.where(np.arange(31) < 2, 1.0, 0.0)][seed]  # fmt: skip
    left = 0.25 * whole if seed == 4 else whole * rng.gamma(1.0, 0.5, 31) + rng.normal(0, 0.02, 31)
    first = stats.share_interval(left, whole, strata, 1000, seed, fewest=3)
    share, ends = bca_share(
        pairs_by_stratum(strata, list(zip(left, whole, strict=True))), (0.025, 0.975), 1000, seed, 3
    )
    assert first.estimate == pytest.approx(share, abs=1e-9)
    assert [first.ci_low, first.ci_high] == (pytest.approx(ends, abs=1e-9) if ends else [None, None])


def test_both_sides_state_the_same_limits():
    """The rules that withhold an interval are written down twice, and equal."""
    assert (LEAST_SAMPLES, MISSING_AT_MOST) == (FEWEST_DIFFERING, MOST_UNDEFINED)
