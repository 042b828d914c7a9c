"""The recompute step: agrees with an untouched folder, and catches a single changed digit anywhere."""

import json
import math
import re

import numpy as np
import pytest
import yaml

from ridgefill.cli import main as ridgefill
from ridgefill.measures import Measures
from ridgefill.recompute import main, recompute
from ridgefill.recompute.bootstrap import bca, by_stratum, normal_quantile, normal_share
from ridgefill.recompute.compare import agrees
from ridgefill.recompute.data import Data
from ridgefill.recompute.expected import Expected
from ridgefill.recompute.rules import verdict_cells
from ridgefill.recompute.scores import score
from ridgefill.results import FILES, metadata_of, read_table, write_table
from ridgefill.stats import lower_bound, mean_interval
from ridgefill.tables import render


@pytest.fixture
def undrawn(monkeypatch):
    """Render without figures, which take most of the time."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])


def change_digit(text, position):
    """Replace the digit at ``position`` by the next one."""
    return f"{text[:position]}{(int(text[position]) + 1) % 10}{text[position + 1 :]}"


def test_an_untouched_folder_agrees_in_every_number(results, capsys):
    """Exit code 0, the counts per table, and verification.json says passed."""
    assert ridgefill(["recompute", str(results)]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"main +147 numbers", printed)
    assert "all agree" in printed
    verification = json.loads((results / "verification.json").read_text())
    assert verification["passed"] is True
    assert verification["mismatches"] == []
    assert verification["numbers"] == len(json.loads((results / "cells.json").read_text())["cells"])
    assert main([str(results)]) == 0


def test_each_changed_digit_of_a_printed_number_is_found_and_named(results):
    """With the last digit of every number in the report changed, every one of them is named."""
    path = results / "report.html"
    changed = set()

    def change(span):
        digits = [i for i, letter in enumerate(span[3]) if letter.isdigit()]
        if not digits:
            return span[0]
        changed.add(span[2])
        return span[1] + change_digit(span[3], digits[-1])

    path.write_text(re.sub(r'(data-cell="([^"]+)">)([^<]*)(?=<)', change, path.read_text()))
    named = {m.cell for m in recompute(results).mismatches if m.file == "report.html"}
    words = {identity for identity in named if identity.endswith(".verdict")}
    assert len(changed) > 600
    assert named == changed
    assert not words


def test_one_changed_digit_is_one_mismatch(results, capsys):
    """A single digit changed in the report exits with 1 and names that cell, once, and the file."""
    path = results / "report.html"
    text = path.read_text()
    span = next(re.finditer(r'data-cell="contrasts.ridgefill-exact.nll_key">([^<]*)<', text))
    path.write_text(change_digit(text, span.end(1) - 1))
    assert main([str(results)]) == 1
    lines = [line for line in capsys.readouterr().out.splitlines() if "MISMATCH" in line]
    assert len(lines) == 2
    assert "report.html: contrasts.ridgefill-exact.nll_key: printed" in lines[0]
    assert "files: report.html" in lines[1]


@pytest.mark.parametrize(
    "name", ["main.md", "contrasts.md", "lam.md", "cost.md", "main.csv", "tasks.csv", "verdicts.csv"]
)
def test_a_changed_digit_in_a_table_file_is_found_and_named(results, capsys, name):
    """One digit of the last number of a Markdown or CSV table ends in exit code 1 and the cell's name."""
    path = results / "tables" / name
    text = path.read_text()
    position = max(i for i, letter in enumerate(text) if letter.isdigit())
    path.write_text(change_digit(text, position))
    assert main([str(results)]) == 1
    printed = capsys.readouterr().out
    table = name.split(".")[0]
    assert re.search(rf"MISMATCH tables/{re.escape(name)}: {table}\.\S+: printed", printed)


def test_a_digit_outside_the_numbers_is_found_too(results):
    """A digit in a title or a figure of the report is no cell, but its bytes are pinned."""
    path = results / "report.html"
    text = path.read_text()
    path.write_text(text.replace("split 19 of 30", "split 18 of 30"))
    assert [(m.file, m.cell) for m in recompute(results).mismatches] == [("files", "report.html")]


def edit(results, name, change):
    """Apply ``change`` to one row of a Parquet file and write it back as the pipeline would."""
    table = read_table(results / name, FILES[name])
    rows = table.to_pylist()
    change(next(row for row in rows if (row.get("arm", "ridgefill"), row.get("split")) == ("ridgefill", 19)))
    write_table(results / name, FILES[name], rows, metadata_of(table))


@pytest.mark.parametrize(
    ("name", "column", "value", "cell"),
    [
        ("ruler/samples.parquet", "score", 0.5, "main.ridgefill.ruler_all"),
        ("ruler/samples.parquet", "macs", 1, "main.ridgefill.mac_share"),
        ("documents/tokens.parquet", "nll", 400.0, "main.ridgefill.nll_all"),
        ("documents/documents.parquet", "macs", 1, "cost.documents.ridgefill.mac_share"),
        ("lam/lam_curve.parquet", "cosine", 0.1, "lam.19.0.001.key"),
        ("fit/fit_layers.parquet", "condition", 1e12, "fit.19.condition"),
    ],
)
def test_a_changed_row_of_a_parquet_file_is_found_and_named(results, capsys, name, column, value, cell):
    """One value of one row changed in the results makes the printed numbers disagree."""
    edit(results, name, lambda row: row.update({column: value}))
    assert main([str(results)]) == 1
    capsys.readouterr()
    named = {m["cell"] for m in json.loads((results / "verification.json").read_text())["mismatches"]}
    assert cell in named
    assert name in named


def test_changed_timings_are_found_and_named(results):
    """Numbers that come from the clock are recomputed like any other."""
    name = "ruler/timings.parquet"
    table = read_table(results / name, "timings")
    rows = [{**row, "late_seconds": row["late_seconds"] * 1.2} for row in table.to_pylist()]
    write_table(results / name, "timings", rows, metadata_of(table))
    named = {m.cell for m in recompute(results).mismatches}
    assert {f"cost.ruler.ridgefill.{k}" for k in ("seconds", "measured_share", "speedup")} <= named
    assert "cost.ruler.ridgefill.mac_share" not in named


def test_a_changed_timing_too_small_to_move_a_median_is_still_found(results):
    """The bytes of every input are pinned, whether or not a number moves."""
    edit(results, "ruler/timings.parquet", lambda row: row.update(lower_seconds=row["lower_seconds"] + 1e-9))
    assert "ruler/timings.parquet" in {m.cell for m in recompute(results).mismatches}


def test_a_prediction_that_does_not_earn_its_score_is_found(results):
    """Scores are recomputed from predictions and references."""
    edit(results, "ruler/samples.parquet", lambda row: row.update(prediction="nothing"))
    assert any("score of" in m.cell and "ridgefill@19" in m.cell for m in recompute(results).mismatches)


def test_a_flattering_verdict_is_found(results, undrawn, capsys):
    """A verdict changed in verdicts.json and rendered again disagrees with the claim's rules."""
    path = results / "verdicts.json"
    path.write_text(path.read_text().replace('"refuted"', '"supported"'))
    render(results)
    assert main([str(results)]) == 1
    assert "verdicts.close-to-exact.verdict: printed 'supported', recomputed refuted" in capsys.readouterr().out


def failed_identity(row):
    if row.get("arm") != "identity":
        return row
    return {**row, **{key: None for key in ("score", "nll") if key in row}, "status": "failed"}


SHAPES = {
    "no documents": lambda name, rows: [] if name.startswith("documents") else rows,
    "no retrieval": lambda name, rows: [] if name.startswith("ruler") else rows,
    "no timings": lambda name, rows: [] if name.endswith("timings.parquet") else rows,
    "no fit": lambda name, rows: [] if name.startswith(("lam", "fit")) else rows,
    "a needle in every tail": lambda name, rows: [
        {**row, "in_filled_region": False} if "in_filled_region" in row else row for row in rows
    ],
    "two lengths": lambda name, rows: [
        {**row, "length": 512 if row["sample"] < 5 else 1024} if "sample" in row else row for row in rows
    ],
    "a failed arm": lambda name, rows: [
        failed_identity(row) if name.endswith(("samples.parquet", "tokens.parquet")) else row for row in rows
    ],
    "two arms": lambda name, rows: [
        row for row in rows if row.get("arm", "exact") in {"exact", "ridgefill"} and row.get("split") in {None, 19}
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_partial_results_render_and_agree(results, undrawn, shape):
    """Missing suites, failed arms, several lengths and few arms: the report renders and both paths agree."""
    for name, schema in FILES.items():
        table = read_table(results / name, schema)
        write_table(results / name, schema, SHAPES[shape](name, table.to_pylist()), metadata_of(table))
    for name in ("claim.yaml", "verdicts.json"):
        (results / name).unlink()
    render(results)
    assert recompute(results).mismatches == ()


def test_the_second_rule_evaluator_agrees_with_the_ledger(bare):
    """Verdicts by the ledger's rules over measures equal those recomputed from the Parquet rows."""
    rules = pytest.importorskip("ledger.rules")
    measures = Measures(bare)
    again = verdict_cells(bare, Data(bare))
    for item in yaml.safe_load((bare / "claim.yaml").read_text())["predictions"]:
        rule = rules.rule_from(item["rule"])
        prediction = rules.Prediction(item["id"], item["says"], rule, item["min_n"], item["missing"])
        verdict = rules.decide(prediction, measures.lookup)
        assert again[f"verdicts.{item['id']}.verdict"].value == verdict.verdict
        for index, row in enumerate(verdict.values):
            assert again[f"verdicts.{item['id']}.{index}.observed"].raw == pytest.approx(row["value"], abs=1e-9)
            assert again[f"verdicts.{item['id']}.{index}.n"].raw == row["n"]


def test_removed_and_invented_numbers_are_found(results):
    """A cell deleted from the report, and one that no table has, are both named."""
    path = results / "report.html"
    text = path.read_text().replace('data-cell="fit.19.lam"', 'data-cell="fit.99.lam"')
    path.write_text(text)
    named = {(m.cell, m.recomputed) for m in recompute(results).mismatches if m.file == "report.html"}
    assert named == {("fit.19.lam", "is not printed"), ("fit.99.lam", "no such number can be recomputed")}


def test_broken_folders_end_in_one_sentence(results, capsys):
    """A missing file, a broken Parquet and a broken cells.json exit with 1 and no traceback."""
    (results / "cells.json").write_text('{"inputs": {}, "outputs": {}, "tables": {}, "cells": {"a": 1}}')
    assert main([str(results)]) == 1
    assert capsys.readouterr().err.startswith("error: ")
    (results / "fit/fit_layers.parquet").write_bytes(b"PAR1")
    assert main([str(results)]) == 1
    assert "fit_layers.parquet is not a readable Parquet file" in capsys.readouterr().err
    assert main([str(results / "nowhere")]) == 1
    assert "is not a results folder" in capsys.readouterr().err


@pytest.mark.parametrize("seed", range(4))
def test_the_second_bootstrap_reaches_the_first_ones_numbers(seed):
    """Two BCa programs agree on continuous, tied and skewed data to nine digits."""
    rng = np.random.default_rng(seed)
    labels = [f"s{i % 3}" for i in range(31)]
    values = [rng.normal(size=31), rng.integers(0, 3, 31) * 50.0, rng.gamma(0.4, size=31), np.full(31, 2.5)][seed]
    first = mean_interval(values, labels, 1000, seed)
    bound = lower_bound(values, np.zeros(31), labels, 1000, seed)
    second = bca(by_stratum(labels, list(values)), (0.025, 0.975, 0.05), 1000, seed)
    assert second == pytest.approx([first.ci_low, first.ci_high, bound], abs=1e-9)


def test_the_normal_quantile_inverts_the_normal():
    """Bisection and erfc agree, and the usual 97.5 % point comes out."""
    assert normal_quantile(0.975) == pytest.approx(1.959963984540054, abs=1e-12)
    for z in (-3.0, 0.0, 0.7, 5.0):
        assert normal_quantile(normal_share(z)) == pytest.approx(z, abs=1e-6)


@pytest.mark.parametrize(
    ("text", "expected", "same"),
    [
        ("12.3", Expected(12.34, 12.34, 1), True),
        ("12.4", Expected(12.34, 12.34, 1), False),
        ("12.34", Expected(12.34, 12.34, 1), False),
        ("12", Expected(12.34, 12.34, 1), False),
        ("\u22121.0", Expected(-1.0, -1.0, 1, signed=True), True),
        ("1.0", Expected(1.0, 1.0, 1, signed=True), False),
        ("6,144", Expected(6144, 6144), True),
        ("6,145", Expected(6144, 6144), False),
        ("2.00e+06", Expected(2e6, 2e6, 2, scientific=True), True),
        ("2.00e+07", Expected(2e6, 2e6, 2, scientific=True), False),
        ("n/a", Expected(None, None), True),
        ("0.0", Expected(None, None), False),
        ("supported", Expected("refuted", "refuted"), False),
    ],
)
def test_a_printed_text_agrees_only_with_its_number(text, expected, same):
    """Digits, sign, scale and absence all count."""
    assert agrees(text, expected) is same


def test_scores_ignore_case_and_control_characters():
    """All-metric: the share of references found; part-metric: whether any is."""
    assert score("It is ABC\n and 12", ["abc", "12", "x"], part=False) == pytest.approx(2 / 3)
    assert math.isclose(score("no", ["abc"], part=True), 0.0)
