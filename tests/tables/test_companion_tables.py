"""Non-inferiority, perplexity gaps, and means beside medians: right by slow sums, recomputed, and told when changed."""

import csv
import json
import math
import runpy
import shutil
from pathlib import Path
from statistics import fmean, median

import numpy as np
import pytest

from ridgefill.errors import ResultsError
from ridgefill.recompute import recompute
from ridgefill.results import FILES, metadata_of, read_table, write_table
from ridgefill.stats import count_matrix
from ridgefill.tables import render

ROOT = Path(__file__).parents[2]
NAIVE = runpy.run_path(str(ROOT / "tests" / "naive" / "bootstrap.py"))
BUILD = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["build"]
RULER, TOKENS = "ruler/samples.parquet", "documents/tokens.parquet"
# Enough samples for either margin; the skill of exact, RidgeFill and POP never misses, or misses now and then.
MANY = {
    ("exact", None): (1.2, 0.0, 0.0, 1.0),
    ("no_fill", 19): (0.1, 0.4, 2.9, 0.7),
    ("identity", 19): (0.42, 0.21, 1.1, 0.71),
    ("ridgefill", 19): (1.2, 0.05, 0.31, 0.73),
    ("pop_native", 20): (0.98, 0.3, 1.4, 0.7),
    ("ridgefill", 22): (0.2, 0.3, 0.9, 0.8),
}


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """A rendered run of four arms on some 200 filled-region samples; shared, so tests must not write into it.

    A domain lost two of its documents, an arm one token, and no arm without a fill has a filled row.
    """
    folder = BUILD(tmp_path_factory.mktemp("many") / "synthetic_split19", MANY, samples=80)
    for name in ("claim.yaml", "verdicts.json"):
        (folder / name).unlink()

    def shape(row):
        if row["arm"] == "no_fill" and "filled_rows" in row:
            row["filled_rows"] = 0
        if (row.get("document"), row["arm"], row.get("position")) == ("legal-1", "pop_native", 1100):
            row.update(nll=None, status="not finite")
        return row.get("document") not in ("code-1", "code-2")

    change(folder, RULER, shape)
    change(folder, TOKENS, shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
        render(folder)
    return folder


@pytest.fixture
def mine(many, monkeypatch, tmp_path):
    """A private copy of it, to be changed and rendered without figures."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    return shutil.copytree(many, tmp_path / many.name)


def change(folder, name, edit):
    """Let ``edit`` change, or with False drop, each row of a Parquet file."""
    table = read_table(folder / name, FILES[name])
    kept = [row for row in table.to_pylist() if edit(row) is not False]
    write_table(folder / name, FILES[name], kept, metadata_of(table))


def cells(folder):
    return json.loads((folder / "cells.json").read_text())["cells"]


def value(folder, identity):
    return cells(folder)[identity]["value"]


def table_rows(folder, name):
    return list(csv.DictReader((folder / f"tables/{name}.csv").open(encoding="utf-8")))


def scores(folder, arm, split):
    """Points of every filled-region sample, in the order of strata and samples."""
    rows = [row for row in read_table(folder / RULER, "ruler_samples").to_pylist() if row["in_filled_region"]]
    found = {(f"{row['task']}@{row['length']}", row["sample"]): 100 * row["score"]
             for row in rows if (row["arm"], row["split"]) == (arm, split)}  # fmt: skip
    return dict(sorted(found.items()))


def losses(folder, arm, split, keep):
    """Losses of the tokens that ``keep`` names, by domain and document and position; of those that have them all."""
    found = {}
    for row in read_table(folder / TOKENS, "document_tokens").to_pylist():
        if (row["arm"], row["split"]) == (arm, split) and keep(row):
            found.setdefault((row["domain"], row["document"]), {})[row["position"]] = row["nll"]
    return {key: each for key, each in found.items() if None not in each.values()}


KINDS = {
    "all": lambda row: True,
    "novel": lambda row: row["novel"],
    "repeated": lambda row: not row["novel"],
    "key": lambda row: row["key"],
}


@pytest.mark.parametrize("pair", ["identity-exact", "pop_native-exact", "identity-pop_native"])
def test_the_bound_is_the_lower_of_the_bootstraps_and_the_floor(many, pair):
    """One item and one resample at a time; the floor by its formula."""
    arm, baseline = pair.split("-")
    splits = {"exact": None, "pop_native": 20, "identity": 19}
    own, other = (scores(many, name, splits[name]) for name in (arm, baseline))
    strata, differences = [key[0] for key in other], [own[key] - other[key] for key in other]
    counts = count_matrix(tuple(strata), 2000, 0)
    (bound,), _ = NAIVE["bca"](counts, [differences], strata, NAIVE["average"], (0.05,))
    floor, identity = 100 * (1 - 0.05 ** (1 / len(own))), f"non_inferiority.{arm}-{baseline}"
    assert value(many, f"{identity}.n") == len(own) > 149
    assert value(many, f"{identity}.difference") == pytest.approx(fmean(differences))
    assert value(many, f"{identity}.bootstrap") == pytest.approx(bound)
    assert value(many, f"{identity}.floor") == pytest.approx(floor)
    assert value(many, f"{identity}.bound") == pytest.approx(min(bound, -floor))


def test_the_three_verdicts(many, rendered):
    """No miss is shown with enough samples, a loss is not, and with few samples nothing can be."""
    found = {(row["baseline"], row["arm"]): row["verdict"] for row in table_rows(many, "non_inferiority")}
    assert found == {
        ("exact, margin 2 points", "identity fill"): "not shown",
        ("exact, margin 2 points", "RidgeFill"): "shown",
        ("exact, margin 2 points", "POP at its own split"): "not shown",
        ("POP at its own split, margin 3 points", "identity fill"): "not shown",
        ("POP at its own split, margin 3 points", "RidgeFill"): "shown",
    }
    few = table_rows(rendered, "non_inferiority")
    assert {row["verdict"] for row in few} == {"n too small"}
    assert max(int(row["n"]) for row in few) < 99
    assert "2 points need 149 samples, 3 points 99" in (rendered / "report.html").read_text()


def test_the_verdict_follows_from_the_printed_numbers(many, rendered):
    """Of every row: the bound against minus the margin, and the floor against the margin."""
    for row in [*table_rows(many, "non_inferiority"), *table_rows(rendered, "non_inferiority")]:
        margin = 3 if row["baseline"].startswith("POP") else 2
        shown, possible = float(row["bound"]) > -margin, float(row["floor"]) < margin
        assert row["verdict"] == ("shown" if shown else "not shown" if possible else "n too small")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("arm", "split"), [("ridgefill", 19), ("pop_native", 20)])
def test_a_gap_is_averaged_within_domains_and_then_across_them(many, kind, arm, split):
    """Domains of one, two and three documents weigh the same; a document that failed is out."""
    own, exact = losses(many, arm, split, KINDS[kind]), losses(many, "exact", None, KINDS[kind])
    gaps = {key: math.exp(fmean(own[key].values()) - fmean(exact[key].values())) - 1 for key in exact if key in own}
    domains = sorted({domain for domain, _ in gaps})
    each = {domain: [gap for (place, _), gap in gaps.items() if place == domain] for domain in domains}
    assert value(many, f"perplexity.{arm}.{kind}") == pytest.approx(fmean(fmean(found) for found in each.values()))
    assert sorted({len(found) for found in each.values()})[0] == 1
    strata = [domain for domain, _ in sorted(gaps)]
    weighted = [gaps[key] * len(gaps) / (len(each) * len(each[key[0]])) for key in sorted(gaps)]
    counts = count_matrix(tuple(strata), 2000, 0)
    ends, _ = NAIVE["bca"](counts, [weighted], strata, NAIVE["average"], (0.025, 0.975))
    found = [value(many, f"perplexity.{arm}.{kind}.{end}") for end in ("low", "high")]
    assert found == pytest.approx(ends)
    status = "incomplete" if arm == "pop_native" and len(gaps) < len(exact) else "ok"
    assert cells(many)[f"perplexity.{arm}.{kind}"]["status"] == status


def test_means_stand_beside_medians_of_the_same_items(many):
    """Of documents for all, novel and key tokens; of tokens for key ones, with their 99th percentile."""
    for kind in ("all", "novel", "key"):
        own, exact = losses(many, "identity", 19, KINDS[kind]), losses(many, "exact", None, KINDS[kind])
        each = [fmean(own[key].values()) - fmean(exact[key].values()) for key in exact]
        assert value(many, f"tails.identity.{kind}_mean") == pytest.approx(fmean(each))
        assert value(many, f"tails.identity.{kind}_median") == pytest.approx(median(each))
    tokens = [own[key][place] - exact[key][place] for key in exact for place in exact[key]]
    expected = {"mean": fmean(tokens), "median": median(tokens), "p99": float(np.quantile(tokens, 0.99))}
    for name, number in expected.items():
        cell = cells(many)[f"tails.identity.token_{name}"]
        assert (cell["value"], cell["n"]) == (pytest.approx(number), len(tokens))


def test_a_mean_that_one_item_carries_is_marked(mine):
    """One key token of 4,000 nats moves the mean beyond the quartiles, and not the median."""
    place = next(row for row in read_table(mine / TOKENS, "document_tokens").to_pylist() if row["key"])
    before = value(mine, "tails.ridgefill.token_median")

    def raise_it(row):
        if (row["document"], row["position"], row["arm"], row["split"]) == (
            place["document"], place["position"], "ridgefill", 19,
        ):  # fmt: skip
            row["nll"] = 4000.0

    change(mine, TOKENS, raise_it)
    render(mine)
    assert value(mine, "tails.ridgefill.token_median") == pytest.approx(before, abs=0.05)
    marked = [line for line in (mine / "tables/tails.md").read_text().splitlines() if "\u00b6" in line]
    assert [line.split("|")[1].strip() for line in marked] == ["RidgeFill"]
    assert not recompute(mine).mismatches


def test_a_loss_far_too_high_has_no_gap(mine):
    """The number is absent, not infinite, and the other path agrees."""

    def fail(row):
        if row["arm"] == "identity" and row["document"] == "essays-0":
            row["nll"] = 5000.0

    change(mine, TOKENS, fail)
    render(mine)
    assert cells(mine)["perplexity.identity.all"]["text"] == "n/a"
    assert cells(mine)["perplexity.ridgefill.all"]["value"] is not None
    assert not recompute(mine).mismatches


def test_both_paths_agree(many, rendered):
    """Every number of the three tables is computed twice."""
    for folder, rows in ((many, 5), (rendered, len(table_rows(rendered, "non_inferiority")))):
        report = recompute(folder)
        assert not report.mismatches
        assert report.counts["non_inferiority"] == 8 * rows
        assert report.counts["perplexity"] == 12 * len(table_rows(folder, "perplexity"))
        assert report.counts["tails"] == 9 * len(table_rows(folder, "tails"))


@pytest.mark.parametrize(
    ("name", "edit", "cell"),
    [
        (RULER, {"score": 0.25}, "non_inferiority.ridgefill-exact.bound"),
        (RULER, {"filled_rows": 0}, "non_inferiority.ridgefill-pop_native.verdict"),
        (TOKENS, {"nll": 90.0}, "perplexity.ridgefill.all.high"),
        (TOKENS, {"nll": 90.0}, "tails.ridgefill.all_mean"),
        (TOKENS, {"novel": True}, "perplexity.ridgefill.repeated"),
        (TOKENS, {"key": False}, "tails.ridgefill.token_median"),
    ],
)
def test_a_changed_row_is_found_and_named(mine, name, edit, cell):
    """Rows of RidgeFill changed in the results, after the report was made."""
    change(mine, name, lambda row: row.update(edit) if (row["arm"], row["split"]) == ("ridgefill", 19) else None)
    assert cell in {mismatch.cell for mismatch in recompute(mine).mismatches}


def test_a_flattering_word_is_found(mine):
    """``not shown`` made ``shown``, in the report alone."""
    path, spot = mine / "report.html", 'data-cell="non_inferiority.identity-exact.verdict">'
    text = path.read_text()
    assert f"{spot}not shown<" in text
    path.write_text(text.replace(f"{spot}not shown<", f"{spot}shown<"))
    found = {(m.file, m.cell, m.printed, m.recomputed) for m in recompute(mine).mismatches}
    assert ("report.html", "non_inferiority.identity-exact.verdict", "shown", "not shown") in found


def test_a_report_says_whether_it_has_these_tables(mine):
    """Called an earlier one, its numbers are ones that nobody can recompute; called a later one, it is refused."""
    path = mine / "cells.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "version": 1}))
    found = {mismatch.cell for mismatch in recompute(mine).mismatches if "no such number" in mismatch.recomputed}
    assert {name.split(".")[0] for name in found} == {"non_inferiority", "perplexity", "tails"}
    path.write_text(json.dumps({**document, "version": 9}))
    with pytest.raises(ResultsError, match="version 9"):
        recompute(mine)


def published():
    """Reports that were published before these tables were printed."""
    folders = (path.parent for path in sorted((ROOT / "data/results").glob("*/cells.json")))
    return [folder for folder in folders if json.loads((folder / "cells.json").read_text())["version"] == 1]


@pytest.mark.parametrize("folder", published(), ids=lambda folder: folder.name)
def test_published_reports_without_these_tables_agree(folder):
    """They are pinned and stay as they were printed; everything in them is recomputed, and nothing else asked for."""
    report = recompute(folder)
    assert not report.mismatches
    assert report.cells == len(json.loads((folder / "cells.json").read_text())["cells"])
    assert not {"non_inferiority", "perplexity", "tails"} & set(report.counts)
