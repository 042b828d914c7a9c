"""``ridgefill trace``: a published number with everything behind it, and the page that shows one."""

import json
import shlex
import shutil
import socket
from pathlib import Path

import pytest

from ridgefill import cli

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
NAME = "smollm2_split19"
CELL = "main.ridgefill.ruler_filled"
# By path: a run of one's own in results/ would hide the published one.
HERE = ["--results", str(ROOT / "data/results" / NAME), "--root", str(ROOT)]


def answer(capsys, *words, code=0):
    """Run the command with ``--json`` and parse what it prints."""
    assert cli.main(["trace", *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def refused(capsys, *words):
    """The sentence that a refused command ends with."""
    assert cli.main(["trace", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    return printed.err


@pytest.fixture
def copy(tmp_path):
    """A copy of the published folder, to be tampered with."""
    return Path(shutil.copytree(ROOT / "data/results" / NAME, tmp_path / "copy"))


def test_a_number_comes_with_all_that_is_behind_it(capsys, monkeypatch):
    """Value, rows with answers, run, ledger, bytes, predictions; and no network is asked."""
    monkeypatch.setattr(socket, "socket", lambda *_: pytest.fail("opened a socket"))
    found = answer(capsys, CELL, *HERE)
    assert found["place"] == {"table": "main", "row": "RidgeFill", "column": "RULER, filled region (points)",
                              "printed": "71.1 [60.2, 78.9]"}  # fmt: skip
    rows = found["rows"]["each"]
    assert len(rows) == found["n"] == 32
    assert sum(row["own"] for row in rows) / 32 == found["value"] == 71.09375
    assert all(len(row["prompt"]) == 64 and isinstance(row["answer"], str) for row in rows)
    assert found["checks"][0]["says"] == "the mean of these 32 scores is 71.09375: what is printed (71.1)"
    assert (found["run"]["start"], found["run"]["result"], found["registration"]["seq"]) == (17, 18, 4)
    assert found["run"]["git_commit"] == "9be03bbe0e7e9c25b4cdec727b57e520a3a89bbc"
    assert found["registration"]["grade"] == "confirmatory"
    assert {item["path"]: item["state"] for item in found["outputs"]} == {
        "ruler/samples.parquet": "same", "ruler/timings.parquet": "same",
    }  # fmt: skip
    assert len(found["configs"]) == 5
    assert {item["state"] for item in found["configs"]} == {"same"}
    assert found["resolved"]["sha256"] == found["resolved"]["carried"]
    assert [one["id"] for one in found["predictions"] if one["this"]] == ["P3", "P7"]
    assert found["environment"]["python"].startswith("3.")
    assert found["agrees"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("main", "ridgefill", "RULER, filled region (points)"),
        ("main", "RidgeFill", "ruler_filled"),
        ("MAIN", "ridgefill", "filled"),
        ("0",),
    ],
)
def test_a_number_can_be_pointed_at(capsys, words):
    """By table, row and column in the ways a person may write them, and by its place in cells.json."""
    wanted = "main.exact.ruler_filled" if words == ("0",) else CELL
    assert answer(capsys, *words, *HERE)["cell"] == wanted


@pytest.mark.parametrize(
    ("words", "cell"),
    [
        (("split_curve", "15 RidgeFill", "RULER, all"), "split_curve.15.ridgefill.ruler_all"),
        (("contrasts", "RidgeFill - exact, loss, key tokens", "difference_low"),
         "contrasts.ridgefill-exact.nll_key.low"),
        (("main", "ridgefill_rows", "work"), "main.ridgefill_rows.mac_share"),
        (("setup", "RULER samples"), "setup.samples"),
        (("cost", "documents identity", "Measured"), "cost.documents.identity.speedup"),
        (("lam", "0.001", "Split 19 (keys)"), "lam.19.0.001.key"),
    ],
)  # fmt: skip
def test_rows_and_columns_of_every_shape_of_table(capsys, words, cell):
    """Two labels, an end of an interval, names of arms, a table with one number a row."""
    assert answer(capsys, *words, *HERE)["cell"] == cell


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("main.ridgefil.ruler_filled", *HERE), "near it: main.ridgefill.ruler_filled"),
        (("nothing", *HERE), "tables main, contrasts"),
        (("9999", *HERE), "cells 0 to 728"),
        (("mian", "ridgefill", "work", *HERE), "no table 'mian'; there is main"),
        (
            ("main", "ridgfill", "work", *HERE),
            "no row 'ridgfill' in table main; there is no fill; identity fill; RidgeFill",
        ),
        (("split_curve", "ridgefill", "RULER, all", *HERE), "15, RidgeFill; 17, RidgeFill; 19, RidgeFill"),
        (("main", "ridgefill", "wrok", *HERE), "no column 'wrok' in table main"),
        (("main", "ridgefill", *HERE), "add the column, one of: RULER, filled region (points); RULER"),
        (("contrasts", "RidgeFill - identity fill, loss, key tokens", "lower", *HERE), "has no number at row"),
        (("main", "a", "b", "c", *HERE), "4 words name no cell"),
        ((CELL, "--results", "smollm_split19", "--root", str(ROOT)), "there are smollm2_split19"),
        ((CELL, "--root", str(ROOT)), "add --results NAME"),
        (("verdicts.P1.verdict", "--sql", *HERE), "the ledger's rules"),
    ],
)
def test_what_cannot_be_found_is_said_with_what_comes_near(capsys, words, said):
    """One sentence on the error stream, exit code 2."""
    assert said in refused(capsys, *words)


def test_a_folder_without_a_report_is_refused(capsys, tmp_path):
    """An empty folder, and one that holds a file or two."""
    assert cli.main(["trace", CELL, "--results", str(tmp_path), "--root", str(ROOT)]) == 7
    assert "lacks experiment.json" in capsys.readouterr().err


def test_a_changed_score_is_seen(capsys, copy):
    """The rows no longer make the number, the answer does not earn its score, and the bytes are others."""
    from ridgefill.results import metadata_of, read_table, write_table

    path = copy / "ruler/samples.parquet"
    table = read_table(path, "ruler_samples")
    rows = table.to_pylist()
    row = next(one for one in rows if (one["arm"], one["split"], one["in_filled_region"]) == ("ridgefill", 19, True))
    row["score"] = 1.0 - row["score"]
    write_table(path, "ruler_samples", rows, metadata_of(table))
    found = answer(capsys, CELL, "--results", str(copy), "--root", str(ROOT), code=1)
    assert [check["agrees"] for check in found["checks"]][:2] == [False, False]
    assert found["checks"][-1]["says"].startswith("1 of these answers do NOT earn their score: niah_")
    assert {item["path"]: item["state"] for item in found["outputs"]}["ruler/samples.parquet"] == "changed"
    assert cli.main(["trace", CELL, "--results", str(copy), "--root", str(ROOT)]) == 1
    assert "OTHER BYTES than the ledger records" in capsys.readouterr().out


def test_a_changed_number_in_cells_json_is_seen(capsys, copy):
    """The rows make another one."""
    text = (copy / "cells.json").read_text("utf-8")
    (copy / "cells.json").write_text(text.replace('"value": 71.09375', '"value": 72.09375'), "utf-8")
    found = answer(capsys, CELL, "--results", str(copy), "--root", str(ROOT), code=1)
    assert found["checks"][0]["says"].endswith("is 71.09375: NOT what is printed (71.1)")


def test_another_configuration_than_the_measured_one_is_seen(capsys, copy):
    """The hash that the Parquet file carries is compared."""
    text = (copy / "experiment.json").read_text("utf-8")
    (copy / "experiment.json").write_text(text.replace('"tail": 128', '"tail": 129'), "utf-8")
    found = answer(capsys, CELL, "--results", str(copy), "--root", str(ROOT), code=1)
    assert found["resolved"]["sha256"] != found["resolved"]["carried"]


def test_all_prints_every_row_and_else_says_how_many_more(capsys):
    """The text for a person."""
    assert cli.main(["trace", CELL, *HERE]) == 0
    short = capsys.readouterr().out
    assert cli.main(["trace", CELL, "--all", *HERE]) == 0
    whole = capsys.readouterr().out
    assert "and 27 more; --all prints them" in short
    assert short.count("\n        answer  ") == 5
    assert whole.count("\n        answer  ") == 32


def test_the_printed_query_gives_the_rows(capsys):
    """``--sql`` is one statement that `ridgefill query` answers with the 32 items."""
    assert cli.main(["trace", CELL, "--sql", *HERE]) == 0
    sql = capsys.readouterr().out
    assert cli.main(["query", sql, "--json", *HERE]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 32
    assert sum(row[4][0] for row in rows) / 32 == 71.09375


def test_the_page_shows_what_its_command_prints(capsys, monkeypatch):
    """The example of docs/trace.md, character for character, as typed in the checkout."""
    monkeypatch.chdir(ROOT)
    block = PAGE.split("\n    $ ")[1].split("\n## ")[0]
    command, *shown = block.rstrip().splitlines()
    program, *words = shlex.split(command)
    assert program == "ridgefill"
    assert cli.main(words) == 0
    assert capsys.readouterr().out.splitlines() == [line[4:] for line in shown]


@pytest.mark.parametrize(
    "command", [line.partition("  #")[0] for line in PAGE.splitlines() if line.startswith("    ridgefill trace")]
)
def test_every_other_command_of_the_page_runs(capsys, monkeypatch, command):
    """The ways to point at a number that the page lists."""
    monkeypatch.chdir(ROOT)
    assert cli.main(shlex.split(command)[1:]) == 0
    assert "agrees" in capsys.readouterr().out
