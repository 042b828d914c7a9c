"""Claims about a published table with ours beside it: each side is its own, complete, and in the same layout."""

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ridgefill.arms import ARM_NAMES
from ridgefill.cli import main
from ridgefill.measures import Measures
from ridgefill.paper import correspond
from ridgefill.paper.layout import WIDTH, make_panel, render
from ridgefill.paper.ours import REASONS, Experiment, open_results, our_cells
from ridgefill.paper.report import as_text, rows, side_by_side

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "data/results"


@pytest.fixture(scope="module")
def smollm2():
    return Experiment(PUBLISHED / "smollm2_split19")


@pytest.fixture(scope="module")
def experiments():
    return open_results([PUBLISHED])


def test_the_published_table_is_printed_as_it_was_printed(paper):
    """Every number and every interval of every table appears in its text with its own digits."""
    for entry in paper.index:
        text = as_text(side_by_side(paper, entry.ref, []))
        for cell in paper.table(entry.ref)[1]:
            for number in (cell.value, cell.ci_low, cell.ci_high):
                assert number is None or number.removeprefix("-" if float(number) == 0 else "") in text, cell.key


def test_every_table_fits_a_page_with_ours_beside_it(paper, experiments):
    """No line of any table is wider than 100 columns."""
    for entry in paper.index:
        wide = [line for line in as_text(side_by_side(paper, entry.ref, experiments)).splitlines() if len(line) > WIDTH]
        assert wide == [], entry.ref


def test_our_numbers_are_those_of_the_published_report(smollm2, paper):
    """Table A.1 on our side: RidgeFill's and POP's cells are those in the experiment's own main table."""
    with (PUBLISHED / "smollm2_split19/tables/main.csv").open(encoding="utf-8", newline="") as stream:
        report = {row["arm"]: row for row in csv.DictReader(stream)}
    cells = {(cell.arm, cell.metric): cell for cell in our_cells(smollm2, paper.table("A.1")[1], "arms")}
    names = {
        "ridgefill": "RidgeFill",
        "pop_native": "POP at its own split",
        "no_fill_longer_tail": "no fill, longer tail",
    }
    for arm, name in names.items():
        for metric, column, decimals in (("ruler_filled_8k_32k", "ruler_filled", 1), ("nll_key", "nll_key", 3)):
            cell = cells[arm, metric]
            found = [f"{number:.{decimals}f}" for number in (cell.value, cell.ci_low, cell.ci_high)]
            shown = [report[name][f"{column}{end}"].removeprefix("+") for end in ("", "_low", "_high")]
            assert found == shown


def test_every_number_of_ours_says_where_it_comes_from(paper, experiments):
    """Interval, n, experiment, measure and ledger entry stand with it; without a number there is a reason."""
    numbers = 0
    for ref in ("17", "18", "A.1", "A.3", "22", "10"):
        for row in rows(side_by_side(paper, ref, experiments)):
            if row["side"] == "ours" and row["value"] is not None:
                numbers += 1
                assert None not in (row["ci_low"], row["ci_high"], row["measure"], row["unit"])
                assert row["n"] > 0
                assert row["ledger_entry"].startswith("main/")
                assert row["experiment"] in {one.settings.experiment for one in experiments}
            elif row["side"] == "ours":
                assert row["status"] in REASONS
    assert numbers > 60


def test_ours_does_not_depend_on_the_papers_numbers(smollm2, paper):
    """With every published number replaced, our side of a table is the same."""
    _, cells = paper.table("18")
    other = [replace(cell, value="77.7", ci_low=None, ci_high=None, n=1, split=1, tail=2) for cell in cells]
    assert our_cells(smollm2, other, "metrics") == our_cells(smollm2, cells, "metrics")


def test_both_sides_have_the_same_rows_and_columns(smollm2, paper):
    """Arms down and measures across are the paper's on our side as well, splits and tails being our own."""
    entry, cells = paper.table("A.1")
    theirs, ours = (
        make_panel("", cells, entry.layout),
        make_panel("", our_cells(smollm2, cells, entry.layout), entry.layout),
    )
    assert ours.columns == theirs.columns
    assert [row.split()[0] for row in ours.rows] == [row.split()[0] for row in theirs.rows]
    assert set(ours.texts) == {
        (there, column)
        for here, there in zip(theirs.rows, ours.rows, strict=True)
        for column in theirs.columns
        if (here, column) in theirs.texts
    }


def test_a_table_of_splits_shows_all_of_ours(smollm2, paper):
    """Table 17: splits 15, 17, 19, 22 and POP's own 20, each contrast paired at its own split."""
    cells = our_cells(smollm2, paper.table("17")[1], "splits")
    assert {cell.split for cell in cells if cell.value is not None} == {15, 17, 19, 20, 22}
    measures = Measures(PUBLISHED / "smollm2_split19")
    (contrast,) = [cell for cell in cells if cell.split == 15 and cell.baseline == "identity"]
    expected = measures.statistic("nll_novel", "ridgefill", "identity", 15)
    assert (contrast.value, contrast.ci_low, contrast.n) == (expected.estimate, expected.ci_low, expected.n)
    missing = [cell for cell in cells if cell.split == 15 and cell.arm == "no_fill"]
    assert [(cell.value, cell.status) for cell in missing] == [(None, "no arm")]


def test_tasks_that_were_not_run_are_no_counterpart(experiments):
    """An average over four, eight or thirteen tasks is only compared with one over the same tasks."""
    by_name = {one.settings.experiment: one for one in experiments}
    gemma, smollm2 = by_name["gemma3_270m_split11"], by_name["smollm2_split19"]
    assert smollm2.cell("ridgefill", "", "ruler_four_needle_tasks_8k_32k").status == "ok"
    assert gemma.cell("ridgefill", "", "ruler_four_needle_tasks_8k_32k").status == "other tasks"
    assert smollm2.cell("ridgefill", "", "ruler13_16k").status == "other tasks"
    assert smollm2.cell("ridgefill", "", "ruler_cwe_16k").status == "no measure"
    assert smollm2.cell("ridgefill", "", "ruler_filled_64k").status == "no measure"


def test_arms_are_called_alike_or_named_as_not(paper):
    """Each renamed arm exists here under its other name, occurs in the paper, and says what is different."""
    theirs = {name for cell in paper.cells for name in (cell.arm, cell.baseline)}
    assert set(correspond.ARMS) == set(correspond.ARMS_DIFFER)
    assert set(correspond.ARMS) <= theirs
    assert set(correspond.ARMS.values()) <= set(ARM_NAMES)


def test_columns_that_do_not_fit_go_below_with_their_rows(paper):
    """At 60 columns the same texts appear, none cut and none lost."""
    entry, cells = paper.table("A.2")
    panel = make_panel("paper", cells, entry.layout)
    text = render([panel], width=60)
    assert max(map(len, text.splitlines())) <= 60
    assert sorted(text.split()) != sorted(render([panel]).split())
    for (row, column), shown in panel.texts.items():
        assert all(part in text for part in (row, column, shown))


def test_the_command_prints_text_json_and_csv(capsys, monkeypatch):
    """The same cells in each form; the paper's values as printed, with their decimals."""
    monkeypatch.chdir(ROOT)
    assert main(["paper", "--table", "table 9", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    theirs = [cell["value"] for cell in answer["cells"] if cell["side"] == "paper"]
    assert theirs == ["85.69", "84.51", "-1.19", "87.85", "86.42", "-1.42"]
    assert main(["paper", "--table", "9", "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["value"] for line in lines if line["side"] == "paper"] == theirs
    assert len(lines) == len(answer["cells"])
    assert main(["paper"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n{name} " in listed for name in ("17", "A.1", "sec 6.4", "card"))
    assert main(["paper", "--check"]) == 0
    assert "derivations give the published number" in capsys.readouterr().out


def test_the_command_keeps_one_model_of_either_side(capsys, monkeypatch):
    """One of the paper's leaves all of ours; one of ours leaves all of the paper's."""
    monkeypatch.chdir(ROOT)
    assert main(["paper", "--table", "17", "--model", "qwen3-8b"]) == 0
    text = capsys.readouterr().out
    assert "llama-3.1-8b" not in text
    assert "ours: smollm2_split19" in text
    assert main(["paper", "--table", "17", "--model", "gemma3-270m"]) == 0
    text = capsys.readouterr().out
    assert "paper: llama-3.1-8b" in text
    assert "smollm2" not in text


def test_local_results_stand_beside_the_published_ones(capsys, monkeypatch, tmp_path):
    """A folder given with --results is one more experiment, whose folder is named."""
    monkeypatch.chdir(ROOT)
    shutil.copytree(PUBLISHED / "smollm2_split19", tmp_path / "mine", ignore=shutil.ignore_patterns("figures"))
    assert main(["paper", "--table", "19", "--results", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert text.count("ours: smollm2_split19") == 2 * text.count("ours: gemma3_270m_split11") > 0
    assert str(tmp_path) in text.replace("\n  ", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--table", "99"], "no table '99'; expected one of 8, 9"),
        (["--table", "17", "--model", "gpt"], "no model 'gpt'; expected one of"),
        (["--table", "17", "--results", "tests"], "holds no results"),
        (["--model", "qwen3-8b"], "add --table REF"),
        (["--check", "--csv"], "leave the other options out"),
        (["--root", "tests"], "holds no tables.csv"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(words, message, capsys, monkeypatch):
    """Unknown tables, models and folders end with an error and no traceback."""
    monkeypatch.chdir(ROOT)
    assert main(["paper", *words]) > 0
    assert message in capsys.readouterr().err
