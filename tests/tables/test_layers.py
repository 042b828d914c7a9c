"""One value changed in one layer of a published folder is found, and named, by the check of that layer."""

import json
import re
import shutil
from pathlib import Path

import pytest

from ledger.verify import verify
from ridgefill.recompute import recompute
from ridgefill.recompute.facts import facts_in
from ridgefill.results import FILES, metadata_of, read_table, write_table
from ridgefill.tables import render
from ridgefill.tracing.finding import open_report
from ridgefill.tracing.folders import Results
from ridgefill.tracing.trace import trace

ROOT = Path(__file__).resolve().parents[2]
NAME = "smollm2_split19"
CELL = "main.ridgefill.ruler_filled"


@pytest.fixture
def project(tmp_path):
    """A copy of the published folder with the ledger, to be tampered with."""
    shutil.copytree(ROOT / "data/ledger/main", tmp_path / "data/ledger/main")
    shutil.copytree(ROOT / "data/results" / NAME, tmp_path / "data/results" / NAME)
    return tmp_path


@pytest.fixture
def folder(project):
    """The published folder of the copy."""
    return project / "data/results" / NAME


def mismatches(folder):
    """What recompute finds, as (file, cell)."""
    return {(one.file, one.cell) for one in recompute(folder).mismatches}


def replace_once(path, old, new):
    """Change the one place where ``old`` stands first."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def edit_cells(folder, change):
    """Let ``change`` edit cells.json in place."""
    document = json.loads((folder / "cells.json").read_text("utf-8"))
    change(document)
    (folder / "cells.json").write_text(json.dumps(document), "utf-8")


def edit_row(folder, name, change):
    """Let ``change`` edit one row of RidgeFill at split 19 and write the file as the pipeline would."""
    table = read_table(folder / name, FILES[name])
    rows = table.to_pylist()
    change(next(row for row in rows if (row["arm"], row["split"]) == ("ridgefill", 19)))
    write_table(folder / name, FILES[name], rows, metadata_of(table))


def wrong_outputs(project):
    """Outputs that `ledger verify` finds other than recorded, and verdicts that no longer follow."""
    findings = [one for branch in verify(project).branches for one in branch.findings if one.level == "error"]
    return [one.message for one in findings if one.code in ("output_changed", "wrong_verdict")]


def test_nothing_changed_is_nothing_found(project, folder):
    """The published folder as it is agrees in every layer."""
    assert mismatches(folder) == set()
    assert wrong_outputs(project) == []


def test_a_score_changed_in_parquet_is_named_by_row_file_and_cell(project, folder):
    """Recompute names the sample, every number it is in, and the file; the ledger names the output."""
    name = "ruler/samples.parquet"
    edit_row(folder, name, lambda row: row.update(score=1.0 - row["score"]))
    found = mismatches(folder)
    rows = [cell for file, cell in found if file == "rows"]
    assert len(rows) == 1
    assert re.fullmatch(r"ruler/samples\.parquet score of niah_\w+/1024/0 ridgefill@19", rows[0])
    assert {("cells.json", "main.ridgefill.ruler_all"), ("files", name)} <= found
    assert [file for file, _ in found if file == "files"] == ["files"]
    assert [name in message for message in wrong_outputs(project)][:1] == [True]


def test_a_loss_changed_in_parquet_is_named_by_file_and_cell(project, folder):
    """The same for one token of a document."""
    name = "documents/tokens.parquet"
    edit_row(folder, name, lambda row: row.update(nll=row["nll"] + 1.0))
    found = mismatches(folder)
    assert {("cells.json", "main.ridgefill.nll_all"), ("files", name)} <= found
    assert not {cell for _, cell in found if cell.startswith("main.") and ".ridgefill." not in cell}
    assert any(name in message for message in wrong_outputs(project))


def test_a_changed_view_is_named(folder):
    """views.sql of the folder is pinned by its bytes."""
    replace_once(folder / "views.sql", "100.0::DOUBLE", "10.0::DOUBLE")
    assert mismatches(folder) == {("files", "views.sql")}


@pytest.mark.parametrize(
    ("query", "old", "new", "wrong", "right"),
    [
        ("main.sql", "m.parts, base.parts", "base.parts, m.parts", "main.ridgefill.ruler_all", "tasks."),
        ("contrasts.sql", "(1, 'ridgefill', 'identity')", "(1, 'identity', 'ridgefill')", "contrasts.identity",
         "main."),
    ],
)  # fmt: skip
def test_a_changed_query_makes_numbers_that_recompute_does_not_find(
    folder, tmp_path, monkeypatch, query, old, new, wrong, right
):
    """Rendered with one SQL file changed, the cells of that query are named and no others."""
    copied = shutil.copytree(ROOT / "ridgefill/tables", tmp_path / "sql", ignore=shutil.ignore_patterns("*.py"))
    replace_once(copied / query, old, new)
    monkeypatch.setattr("ridgefill.tables.folder.SQL_DIR", copied)
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    render(folder)
    named = {cell for file, cell in mismatches(folder) if file == "cells.json"}
    assert any(cell.startswith(wrong) for cell in named)
    assert not any(cell.startswith(right) for cell in named)


def test_a_changed_query_is_named_by_the_trace_without_rendering(folder, tmp_path, monkeypatch):
    """The rows that the query now picks no longer make what is printed, while the second code path still does."""
    copied = shutil.copytree(ROOT / "ridgefill/tables", tmp_path / "sql", ignore=shutil.ignore_patterns("*.py"))
    replace_once(copied / "main.sql", "m.parts, base.parts", "base.parts, m.parts")
    monkeypatch.setattr("ridgefill.tracing.rows.SQL_DIR", copied)
    found = trace(open_report(Results(NAME, folder)), CELL, ROOT, lambda root, branch: None)
    assert [check["agrees"] for check in found["checks"]] == [False, True, True, True, True]
    assert found["agrees"] is False


@pytest.mark.parametrize("field", ["value", "text", "n", "query", "run", "ledger_entry"])
def test_a_changed_field_of_a_cell_is_named(folder, field):
    """cells.json cannot say another value, size, query, run or entry than the report and the files."""
    changed = {
        "value": 71.1,
        "text": "71.2",
        "n": 31,
        "query": "tasks.sql",
        "run": "documents",
        "ledger_entry": "main/9",
    }
    edit_cells(folder, lambda document: document["cells"][CELL].update({field: changed[field]}))
    found = mismatches(folder)
    assert found <= {("cells.json", CELL), ("cells.json", f"{CELL} {field}"), ("cells.json", f"{CELL} ledger_entry")}
    assert found


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda d: d["cells"].pop(CELL), ("cells.json", CELL)),
        (lambda d: d["cells"].update({"main.new.ruler_all": d["cells"][CELL]}), ("cells.json", "main.new.ruler_all")),
        (lambda d: d["tables"].pop("main"), ("cells.json", f"{CELL} table")),
        (lambda d: d["tables"]["main"][3].__setitem__(0, "RidgeFil"), ("tables/main.md", "row 4, Arm")),
        (lambda d: d["tables"]["main"][3].__setitem__(0, "RidgeFil"), ("tables/main.csv", "row 4, arm")),
        (lambda d: d["outputs"].pop("tables/main.csv"), ("files", "tables/main.csv")),
        (lambda d: d["inputs"].pop("ruler/samples.parquet"), ("files", "ruler/samples.parquet")),
        (lambda d: d["inputs"].update({"experiment.json": "0" * 64}), ("files", "experiment.json")),
    ],
)
def test_other_changes_of_cells_json_are_named(folder, change, named):
    """Cells, labels and hashes cannot be added, renamed or left out."""
    edit_cells(folder, change)
    assert named in mismatches(folder)


@pytest.mark.parametrize(
    ("name", "old", "new", "cell"),
    [
        ("tables/main.md", "| 71.1 [60.2, 78.9]", "| 71.2 [60.2, 78.9]", CELL),
        ("tables/main.md", "| 71.1 [60.2, 78.9]", "| 71.1 [60.3, 78.9]", f"{CELL}.low"),
        ("tables/main.md", "| RidgeFill |", "| identity fill |", "row 4, Arm"),
        ("tables/main.csv", "RidgeFill,71.1,", "RidgeFill,71.2,", CELL),
        ("tables/main.csv", "RidgeFill,71.1,", "Ridgefill,71.1,", "row 4, arm"),
        ("report.html", f'data-cell="{CELL}">71.1', f'data-cell="{CELL}">71.2', CELL),
    ],
)
def test_a_change_of_what_is_printed_is_named(folder, name, old, new, cell):
    """Number, end of an interval or label: the cell or the row, and the file, and nothing else."""
    replace_once(folder / name, old, new)
    assert mismatches(folder) == {(name, cell), ("files", name)}


def test_a_changed_fact_of_the_report_is_named(folder):
    """How many items a tapped number shows is compared with cells.json."""
    assert facts_in(folder / "report.html")[CELL]["n"] == 32
    replace_once(
        folder / "report.html",
        f'"{CELL}":["main.sql","ruler","main/17",32',
        f'"{CELL}":["main.sql","ruler","main/17",33',
    )
    assert mismatches(folder) == {("cells.json", f"{CELL} n"), ("files", "report.html")}


def test_a_changed_verdict_is_named(project, folder):
    """The ledger decides every prediction again."""
    replace_once(folder / "verdicts.json", '"verdict": "supported"', '"verdict": "refuted"')
    assert ("files", "verdicts.json") in mismatches(folder)
    assert any("P1" in message for message in wrong_outputs(project))


def test_the_facts_of_a_page_rendered_today_are_read(folder, monkeypatch):
    """The page of today holds them in another form, with the same content."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
    before = facts_in(folder / "report.html")
    render(folder)
    after = facts_in(folder / "report.html")
    assert before
    assert {cell: after[cell] for cell in before} == before
    assert mismatches(folder) == set()
