"""Agreement and two turns in the measure view, the tables, the ledger's numbers and the recomputation; all of it only
where a folder has their files.
"""

import csv
import json
import math
import shutil

import duckdb
import numpy as np
import pytest

from ridgefill.measures import Measures
from ridgefill.provider import config_sha256, ridgefill_measures
from ridgefill.recompute import recompute
from ridgefill.results import FILES, metadata_of, read_json, read_table, views_text, write_table
from ridgefill.stats import lower_bound
from ridgefill.tables import render
from ridgefill.views import MORE_MEASURES, VIEWS_SQL

TOKENS, SAMPLES = "agreement/tokens.parquet", "turns/samples.parquet"
ARMS = {("exact", None): 0.0, ("identity", 19): 0.6, ("ridgefill", 19): 0.2, ("ridgefill", 22): 0.1}
WHERE = {"model": "tiny", "split": 19, "subset": None}


def token_rows(rng):
    """Six documents at two lengths; shares of copyable tokens from none to nearly all."""
    rows = []
    for number in range(6):
        for (arm, split), wrong in ARMS.items():
            for variant in ("greedy", "text"):
                for place in range(20):
                    kl = np.float32(wrong * rng.gamma(0.5, 1.0 + number))
                    rows.append(
                        {
                            "document": f"d{number}", "domain": "essays", "variant": variant, "arm": arm,
                            "split": split, "prompt_tokens": 512 * (1 + number % 2), "position": 512 + place,
                            "token": place, "copyable": place < 4 * number, "top1": bool(rng.random() > wrong / 2),
                            "kl": float(kl), "status": "ok",
                        }
                    )  # fmt: skip
    return rows


def sample_rows(rng):
    """Sixteen samples, twelve of them in the filled region."""
    return [
        {
            "experiment": "synthetic_split19", "model": "tiny", "source": "ruler-style", "task": "niah_multikey_1",
            "length": 512 + 512 * (sample % 2), "sample": sample, "prompt_sha256": "0" * 64, "prompt_tokens": 400,
            "second_prompt_tokens": 470, "tail": 256, "split": split, "arm": arm, "filled_rows": 0, "exact_rows": 0,
            "in_filled_region": sample % 4 > 0, "in_filled_region_queried": True, "first_prediction": "is 11.",
            "first_references": ["11"], "first_score": 1.0,
            "first_tokens": 3, "second_prediction": "is 22." if (hit := rng.random() > wrong) else "is 33.",
            "second_references": ["22"], "second_score": float(hit), "second_tokens": 3, "status": "ok", "macs": 1,
            "exact_macs": 2,
        }
        for sample in range(16)
        for (arm, split), wrong in ARMS.items()
    ]  # fmt: skip


@pytest.fixture
def folder(bare, tmp_path, monkeypatch):
    """A finished run with both suites, whose tables carry the hash of its configuration; rendered without figures."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    made = shutil.copytree(bare, tmp_path / bare.name)
    rng = np.random.default_rng(5)
    marks = {"git_commit": "0" * 40, "config_sha256": config_sha256(read_json(made / "experiment.json"))}
    for name in FILES:
        table = read_table(made / name, FILES[name])
        write_table(made / name, FILES[name], table.to_pylist(), metadata_of(table) | marks)
    write_table(made / TOKENS, "agreement_tokens", token_rows(rng), {**marks, "ledger_entry": "main/11"})
    write_table(made / SAMPLES, "turn_samples", sample_rows(rng), {**marks, "ledger_entry": "main/13"})
    return made


def cells(folder):
    return json.loads((folder / "cells.json").read_text())["cells"]


def change(folder, name, schema, edit):
    """Let ``edit`` change each row of a file."""
    table = read_table(folder / name, schema)
    rows = table.to_pylist()
    for row in rows:
        edit(row)
    write_table(folder / name, schema, rows, metadata_of(table))


def by_document(folder, arm, column, variant="greedy", split=19):
    """A column's values by document."""
    found = {}
    for row in read_table(folder / TOKENS, "agreement_tokens").to_pylist():
        if (row["arm"], row["variant"], row["split"]) == (arm, variant, split):
            found.setdefault(row["document"], []).append(row[column])
    return found


def mean(values):
    values = list(values)
    return math.fsum(values) / len(values)


def test_metrics_are_means_over_documents_and_samples(folder):
    """By hand from the rows: points of top-1, nats of KL and its medians, points of samples in the filled region."""
    measures = Measures(folder)
    for split in (19, 22):
        for variant, name in (("greedy", "agreement"), ("text", "agreement_text")):
            kl, top1 = (by_document(folder, "ridgefill", key, variant, split) for key in ("kl", "top1"))
            expected = {
                f"{name}_kl": mean(mean(values) for values in kl.values()),
                f"{name}_kl_median": mean(float(np.median(values)) for values in kl.values()),
                f"{name}_top1": 100 * mean(mean(values) for values in top1.values()),
            }
            for metric, value in expected.items():
                found = measures.statistic(metric, "ridgefill", None, split)
                assert (found.n, found.estimate) == (6, pytest.approx(value, abs=1e-9))
    rows = read_table(folder / SAMPLES, "turn_samples").to_pylist()
    inside = [row for row in rows if row["in_filled_region"] and (row["arm"], row["split"]) == ("ridgefill", 19)]
    found = measures.statistic("turn2", "ridgefill", None, 19)
    assert (found.n, found.estimate) == (12, pytest.approx(100 * mean(row["second_score"] for row in inside)))
    assert measures.statistic("turn1", "ridgefill", None, 19).estimate == 100.0
    assert measures.statistic("turn2", "ridgefill", None, 19, "512").n == len([r for r in inside if r["length"] == 512])
    assert measures.statistic("agreement_kl", "ridgefill", None, 19, "1024").n == 3


def test_only_answers_have_the_binomial_floor(folder):
    """A second answer is right or wrong; a document's agreement is a share of many tokens."""
    change(folder, SAMPLES, "turn_samples", lambda row: row.update(second_score=1.0, second_prediction="22"))
    change(folder, TOKENS, "agreement_tokens", lambda row: row.update(top1=True))
    measures = Measures(folder)
    assert measures.statistic("turn2", "ridgefill", "exact", 19).lower_bound == pytest.approx(
        lower_bound(np.zeros(12), np.zeros(12), accuracy=True, resamples=100, seed=0)
    )
    assert measures.statistic("agreement_top1", "ridgefill", "exact", 19).lower_bound == 0.0


def test_an_item_without_a_value_is_left_out_and_said(folder):
    """One token without a KL takes its document out of the KL metrics, and not out of top-1."""

    def fail(row):
        if (row["document"], row["arm"], row["position"]) == ("d1", "ridgefill", 515):
            row.update(kl=None, status="not finite")

    change(folder, TOKENS, "agreement_tokens", fail)
    measures = Measures(folder)
    for metric, n, status in (("kl", 5, "incomplete"), ("kl_median", 5, "incomplete"), ("top1", 6, "ok")):
        found = measures.statistic(f"agreement_{metric}", "ridgefill", None, 19)
        assert (found.n, found.status) == (n, status)
    render(folder)
    assert not recompute(folder).mismatches


def test_tables_print_the_metrics_and_recompute_agrees(folder):
    """Arms at the primary split or their own; exact is not compared with itself; contrasts have the metrics too."""
    render(folder)
    rows = list(csv.DictReader((folder / "tables/suites.csv").open(encoding="utf-8")))
    assert [row["arm"] for row in rows] == ["exact", "identity fill", "RidgeFill"]
    assert (rows[0]["agreement_top1"], rows[0]["agreement_kl"]) == ("\u2013", "\u2013")
    assert float(rows[2]["agreement_kl_low"]) < float(rows[2]["agreement_kl"]) < float(rows[2]["agreement_kl_high"])
    for metric in ("agreement_top1", "agreement_kl", "agreement_kl_median", "turn1", "turn2"):
        found = Measures(folder).statistic(metric, "ridgefill", None, 19)
        assert cells(folder)[f"suites.ridgefill.{metric}"]["value"] == found.estimate
    assert cells(folder)["suites.ridgefill.turn2"]["ledger_entry"] == "main/13"
    assert cells(folder)["suites.ridgefill.agreement_kl"]["ledger_entry"] == "main/11"
    difference = Measures(folder).statistic("agreement_top1", "ridgefill", "identity", 19)
    assert cells(folder)["contrasts.ridgefill-identity.agreement_top1"]["value"] == difference.estimate
    report = recompute(folder)
    assert not report.mismatches
    assert report.counts["suites"] > 20
    assert report.counts["post_prompt"] == 2 * 11


def test_the_tokens_after_the_prompt_are_split_by_what_could_be_copied(folder):
    """By hand: quantiles over all tokens, and means of documents below a fifth, below a half, and above."""
    render(folder)
    kl = by_document(folder, "ridgefill", "kl", "text")
    shares = {document: mean(flags) for document, flags in by_document(folder, "ridgefill", "copyable", "text").items()}
    tokens = [value for values in kl.values() for value in values]
    found = {name: cells(folder)[f"post_prompt.ridgefill.{name}"]["value"] for name in ("median", "p99")}
    assert found == pytest.approx({"median": np.quantile(tokens, 0.5), "p99": np.quantile(tokens, 0.99)})
    for name, inside in (
        ("copy_low", lambda share: share < 0.2),
        ("copy_middle", lambda share: 0.2 <= share < 0.5),
        ("copy_high", lambda share: share >= 0.5),
    ):
        chosen = [mean(kl[document]) for document, share in shares.items() if inside(share)]
        cell = cells(folder)[f"post_prompt.ridgefill.{name}"]
        assert (cell["n"], cell["value"]) == (len(chosen), pytest.approx(mean(chosen)))


def test_an_arm_that_a_suite_did_not_run_has_no_number_there(folder):
    """A dash in the table and no paired comparison, rather than numbers that were not measured."""
    table = read_table(folder / SAMPLES, "turn_samples")
    kept = [row for row in table.to_pylist() if row["arm"] != "identity"]
    write_table(folder / SAMPLES, "turn_samples", kept, metadata_of(table))
    render(folder)
    rows = list(csv.DictReader((folder / "tables/suites.csv").open(encoding="utf-8")))
    assert [row["turn2"] == "\u2013" for row in rows] == [False, True, False]
    assert "suites.identity.turn2" not in cells(folder)
    assert "contrasts.ridgefill-identity.turn2.n" not in cells(folder)
    assert cells(folder)["contrasts.ridgefill-exact.turn2.n"]["value"] == 12
    assert not recompute(folder).mismatches


def test_folders_without_the_suites_are_as_they_were(bare, rendered):
    """The views' text is the one of every published folder, and no table, cell or metric appears."""
    assert views_text(bare) == VIEWS_SQL.read_text("utf-8")
    assert not [name for name in cells(rendered) if name.startswith(("suites.", "post_prompt."))]
    assert Measures(bare).statistic("turn2", "ridgefill", None, 19).status == "missing"


@pytest.mark.parametrize("names", [[TOKENS], [SAMPLES], [TOKENS, SAMPLES]])
def test_each_suite_joins_by_itself(folder, names):
    """Either suite without the other: its metrics are there, the other's missing, tables and recomputation hold."""
    for name in set(MORE_MEASURES) - set(names):
        (folder / name).unlink(missing_ok=True)
    measures = Measures(folder)
    for metric, name in (("agreement_kl", TOKENS), ("turn2", SAMPLES), ("ruler_all", None)):
        there = name is None or name in names
        assert (measures.statistic(metric, "ridgefill", None, 19).status != "missing") == there
    render(folder)
    assert (folder / "tables/post_prompt.csv").is_file() == (TOKENS in names)
    assert not recompute(folder).mismatches


def test_the_views_work_as_a_script_in_the_folder(folder, monkeypatch):
    """``views.sql`` of a rendered folder, as a person would load it there."""
    render(folder)
    monkeypatch.chdir(folder)
    connection = duckdb.connect(":memory:")
    connection.execute((folder / "views.sql").read_text("utf-8"))
    found = {row[0] for row in connection.execute("SELECT DISTINCT metric FROM measure").fetchall()}
    assert {"ruler_all", "nll_key", "agreement_kl", "agreement_text_top1", "turn1", "turn2"} <= found


def test_the_ledger_reads_pinned_files_of_the_suites_alone(folder):
    """Numbers of the report when the files are pinned; ``missing`` when only the others are."""
    lookup = ridgefill_measures(folder, [*FILES, TOKENS, SAMPLES])
    for metric in ("agreement_top1", "agreement_kl", "turn2", "ruler_filled"):
        found = lookup(metric, "ridgefill", "identity", WHERE)
        assert found == Measures(folder).lookup(metric, "ridgefill", "identity", WHERE)
        assert found["estimate"] is not None
    lookup = ridgefill_measures(folder, list(FILES))
    assert lookup("turn2", "ridgefill", None, WHERE)["status"] == "missing"
    assert lookup("ruler_filled", "ridgefill", None, WHERE)["status"] == "ok"
    lookup = ridgefill_measures(folder, [SAMPLES])
    assert lookup("turn2", "ridgefill", None, WHERE)["status"] == "ok"
    assert lookup("ruler_filled", "ridgefill", None, WHERE)["status"] == "missing"


def test_a_score_that_its_answer_does_not_earn_is_found(folder):
    """Both turns' scores are earned again from what was said."""
    change(folder, SAMPLES, "turn_samples", lambda row: row.update(first_score=0.0 if row["sample"] == 3 else 1.0))
    render(folder)
    found = {str(mismatch) for mismatch in recompute(folder).mismatches}
    assert len(found) == len(ARMS)
    assert all("first_score of niah_multikey_1/1024/3" in one for one in found)
