"""The LongBench tables: there only when the suites were run, right in every number, recomputed elsewhere."""

import csv
import runpy
import shutil
from pathlib import Path

import numpy as np
import pytest

from ridgefill.measures import Measures
from ridgefill.paper.files import find_root, load_paper
from ridgefill.paper.ours import Experiment
from ridgefill.paper.report import rows, side_by_side
from ridgefill.recompute import recompute
from ridgefill.tables import render

MADE = runpy.run_path(str(Path(__file__).with_name("longbench_rows.py")))
V1, V2, OUTCOMES, change, cells = (MADE[name] for name in ("V1", "V2", "OUTCOMES", "change", "cells"))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """A finished run with both suites, rendered without figures; shared, so tests must not write into it."""
    made = MADE["build"](tmp_path_factory.mktemp("longbench") / "synthetic_split19")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
        render(made)
    return made


@pytest.fixture
def folder(drawn, tmp_path, monkeypatch):
    """A private copy of it without the claim, whose verdicts hold for these rows alone; rendered without figures."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    leave_out = shutil.ignore_patterns("claim.yaml", "verdicts.json")
    return Path(shutil.copytree(drawn, tmp_path / drawn.name, ignore=leave_out))


def test_tables_print_the_metrics_and_recompute_agrees(drawn):
    """Cells are the statistics, with n; the average weighs datasets the same; contrasts have both suites."""
    found, measures = cells(drawn), Measures(drawn)
    for dataset in ("hotpotqa", "passage_count", "qmsum"):
        stat = measures.statistic("longbench_v1", "identity", "exact", 19, dataset)
        assert found[f"longbench_v1.identity.{dataset}.difference.low"]["value"] == stat.ci_low
        assert found[f"longbench_v1.identity.{dataset}.pairs"]["value"] == stat.n
    means = [found[f"longbench_v1.identity.{name}.score"]["value"] for name in ("hotpotqa", "passage_count", "qmsum")]
    assert found["longbench_v1.identity.average.score"]["value"] == pytest.approx(np.mean(means))
    for cell, subset in (
        ("all", None),
        ("difficulty.hard", "hard"),
        (f"domain.{MADE['DOMAINS'][2]}", MADE["DOMAINS"][2]),
    ):
        stat = measures.statistic("longbench_v2", "ridgefill", None, 19, subset)
        one = found[f"longbench_v2.ridgefill.{cell}.accuracy"]
        assert (one["value"], one["n"], one["ledger_entry"]) == (stat.estimate, stat.n, "main/23")
    difference = measures.statistic("longbench_v2", "ridgefill", "identity", 19)
    assert found["contrasts.ridgefill-identity.longbench_v2"]["value"] == difference.estimate
    assert found["contrasts.ridgefill-exact.longbench_v1.lower"]["ledger_entry"] == "main/21"
    rows = list(csv.DictReader((drawn / "tables/longbench_v2.csv").open(encoding="utf-8")))
    assert [row["items"] for row in rows][::3] == [
        "all items", "difficulty: easy", "difficulty: hard", "length: short", "length: medium", "length: long",
        "domain: Code Repository", "domain: Long, odd. name", "domain: Single-Document QA",
    ]  # fmt: skip
    report = recompute(drawn)
    assert not report.mismatches
    assert (report.counts["longbench_v1"] > 60, report.counts["longbench_v2"] > 200) == (True, True)


def test_discordant_items_have_the_papers_sign_test(folder):
    """48 items right under exact alone against 41 under the fill alone give 0.525, whatever else agrees."""
    exact, own = "r" * 60 + "w" * 60 + "re", "r" * 12 + "w" * 48 + "r" * 41 + "n" * 19 + "er"
    MADE["write"](folder, V2, MADE["v2_rows"]({("exact", None): exact, ("ridgefill", 19): own}))
    render(folder)
    found = {
        name: cells(folder)[f"longbench_v2.ridgefill.all.{name}"] for name in ("arm_only", "exact_only", "p_value")
    }
    assert {name: cell["text"] for name, cell in found.items()} == {
        "arm_only": "41", "exact_only": "48", "p_value": "0.525",
    }  # fmt: skip
    assert found["p_value"]["n"] == cells(folder)["longbench_v2.ridgefill.all.pairs"]["value"] == 120
    assert not recompute(folder).mismatches


def test_a_group_that_no_pair_is_left_of_has_no_number(folder):
    """An arm that wrote nothing for any item: no accuracy, no difference, no test, and recomputation agrees."""
    MADE["write"](folder, V2, MADE["v2_rows"]({("exact", None): "rrrr", ("ridgefill", 19): "eeee"}))
    render(folder)
    found = cells(folder)
    for name in ("accuracy", "difference", "p_value", "arm_only"):
        assert found[f"longbench_v2.ridgefill.all.{name}"]["text"] == "n/a"
    assert found["longbench_v2.ridgefill.all.n"]["value"] == 0
    assert not recompute(folder).mismatches


def v1_score(row):
    if (row["dataset"], row["sample"], row["arm"]) == ("qmsum", 3, "ridgefill"):
        row["score"] = 1.0 - row["score"]


def v2_correct(row):
    if (row["item"], row["arm"]) == ("item-004", "ridgefill"):
        row.update(MADE["v2_answer"]("w"))


def v2_empty(row):
    if (row["item"], row["arm"]) == ("item-004", "ridgefill"):
        row.update(MADE["v2_answer"]("e"))


def v2_difficulty(row):
    if row["item"] == "item-003":
        row["difficulty"] = "easy"


@pytest.mark.parametrize(
    ("name", "edit", "cell"),
    [
        (V1, v1_score, "longbench_v1.ridgefill.qmsum.score"),
        (V1, v1_score, "longbench_v1.ridgefill.average.score"),
        (V2, v2_correct, "longbench_v2.ridgefill.all.accuracy"),
        (V2, v2_correct, "longbench_v2.ridgefill.all.exact_only"),
        (V2, v2_empty, "longbench_v2.ridgefill.all.n"),
        (V2, v2_difficulty, "longbench_v2.identity.difficulty.hard.accuracy"),
    ],
)
def test_a_changed_value_is_caught(drawn, tmp_path, name, edit, cell):
    """A value changed after rendering, though it is consistent in itself, no longer gives what was printed."""
    folder = Path(shutil.copytree(drawn, tmp_path / drawn.name))
    assert not recompute(folder).mismatches
    change(folder, name, edit)
    found = recompute(folder).mismatches
    assert {"report.html", "cells.json"} <= {one.file for one in found if one.cell == cell}
    assert not [one for one in found if one.file == "rows"]


def test_a_verdict_or_score_that_its_text_does_not_earn_is_found(folder):
    """Also when the report is rendered from it: what each answer earns is worked out again."""

    def forge(row):
        if row["arm"] == "identity" and row.get("dataset", "passage_count") == "passage_count":
            row.update(score=1.0 - row["score"]) if "score" in row else row.update(correct=True)

    change(folder, V1, forge)
    change(folder, V2, forge)
    render(folder)
    found = {one.cell for one in recompute(folder).mismatches}
    wrong = [place for place, letter in enumerate(OUTCOMES["identity", 19]) if letter != "r"]
    assert found == {f"{V1} score of passage_count/{sample} identity@19" for sample in range(5)} | {
        f"{V2} verdict of item-{place:03d} identity@19" for place in wrong
    }


@pytest.mark.parametrize("names", [[V1], [V2], []])
def test_each_suite_joins_by_itself(folder, names):
    """No metric, table or cell of a suite that was not run."""
    for name in {V1, V2} - set(names):
        (folder / name).unlink()
    shutil.rmtree(folder / "tables")
    render(folder)
    for name, metric in ((V1, "longbench_v1"), (V2, "longbench_v2")):
        there = name in names
        assert (Measures(folder).statistic(metric, "ridgefill", None, 19).status != "missing") == there
        assert (folder / f"tables/{metric}.csv").is_file() == there
        assert any(metric in one for one in cells(folder)) == there
    assert ('id="longbench"' in (folder / "report.html").read_text("utf-8")) == bool(names)
    assert not recompute(folder).mismatches


def test_the_papers_longbench_has_ours_beside_it(drawn):
    """The average of v1 and all of v2 are our means with their intervals, in points, from the suites' own entries."""
    ours, found = Experiment(drawn), cells(drawn)
    one, other = ours.cell("ridgefill", "", "longbench_v1_avg"), ours.cell("ridgefill", "", "longbench_v2_overall")
    stat = Measures(drawn).statistic("longbench_v1", "ridgefill", None, 19)
    assert (one.value, one.ci_low, one.n, one.ledger_entry) == (stat.estimate, stat.ci_low, stat.n, "main/21")
    assert (other.value, other.ledger_entry) == (found["longbench_v2.ridgefill.all.accuracy"]["value"], "main/23")
    table = side_by_side(load_paper(find_root()), "11", [ours])
    assert {row["unit"] for row in rows(table) if row["side"] == "ours" and row["measure"]} == {"points"}
