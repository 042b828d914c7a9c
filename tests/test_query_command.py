"""``ridgefill query``: one SELECT over all results, nothing but reading, and the page of example questions."""

import csv
import io
import json
import shlex
import shutil
from pathlib import Path

import pytest

from ridgefill import cli
from ridgefill.measures import Measures
from ridgefill.tracing.database import Answer, Database
from ridgefill.tracing.folders import Results, measured
from ridgefill.tracing.listing import as_table

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "query.md").read_text(encoding="utf-8")
PUBLISHED = ROOT / "data/results"
NAMES = ["gemma3_270m_split11", "smollm2_split19"]
# By path: a run of one's own in results/ would hide the published one.
ONE = ["--results", str(PUBLISHED / "smollm2_split19"), "--root", str(ROOT)]


def answer(capsys, *words):
    """Run the command with ``--json`` and parse what it prints."""
    assert cli.main(["query", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def examples():
    """Every example question of the page: its command, as typed over one line or more, and what is printed."""
    for block in PAGE.split("\n    $ ")[1:]:
        command, rest = "", block.splitlines()
        while command.count('"') != 2:
            command += ("\n" if command else "") + rest.pop(0)
        shown = rest[: next((place for place, line in enumerate(rest) if not line.startswith("    ")), len(rest))]
        yield command, "".join(f"{line[4:]}\n" for line in shown)


def test_the_page_has_at_least_eight_questions():
    """Each is one of the examples that run below."""
    assert len(list(examples())) >= 8


@pytest.mark.parametrize(("command", "shown"), examples())
def test_the_page_shows_what_its_questions_give(capsys, monkeypatch, command, shown):
    """Every number and word of the page, as typed in the checkout."""
    monkeypatch.chdir(ROOT)
    program, *words = shlex.split(command)
    assert program == "ridgefill"
    assert cli.main(words) == 0
    assert capsys.readouterr().out == shown


def test_experiments_stand_side_by_side_under_their_names(capsys):
    """Each with its own rows: as many as the folder alone has."""
    sql = "select experiment, count(*) from measure group by all order by all"
    both = answer(
        capsys, sql, "--root", str(ROOT), *(word for name in NAMES for word in ("--results", str(PUBLISHED / name)))
    )
    counted = {name: Measures(PUBLISHED / name).query("SELECT count(*) FROM measure")[0][0] for name in NAMES}
    assert dict(both["rows"]) == counted


def test_all_finished_experiments_are_asked_by_default(capsys):
    """Those below data/results that have every table, and no unfinished one."""
    found = {
        row[0] for row in answer(capsys, "select distinct experiment from ruler_samples", "--root", str(ROOT))["rows"]
    }
    assert {path.parent.name for path in PUBLISHED.glob("*/experiment.json")} <= found
    assert "smollm2_lengths" not in found


def test_a_run_of_your_own_hides_its_published_namesake(capsys, tmp_path):
    """results/ comes first, and one name is one experiment."""
    for home in ("results", "data/results"):
        shutil.copytree(ROOT / "data/results/smollm2_split19", tmp_path / home / "smollm2_split19")
    (tmp_path / "data/results/smollm2_split19/ruler/samples.parquet").write_bytes(b"nothing")
    rows = answer(capsys, "select count(*) from ruler_samples where arm = 'exact'", "--root", str(tmp_path))["rows"]
    assert rows == [[40]]
    both = [word for home in ("results", "data/results") for word in ("--results", str(tmp_path / home / NAMES[1]))]
    assert cli.main(["query", "select 1", "--root", str(tmp_path), *both]) == 2
    assert "both hold smollm2_split19" in capsys.readouterr().err


def test_tables_are_listed_with_their_columns(capsys):
    """Every view, its columns with types, and who has it when not everybody does."""
    two = [word for name in ("smollm2_suites", *NAMES) for word in ("--results", str(PUBLISHED / name))]
    assert cli.main(["query", "--tables", "--root", str(ROOT), *two]) == 0
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 100
    assert "turns_samples  (only smollm2_suites)" in text
    assert "\nruler_samples\n" in text
    assert cli.main(["query", "--tables", "--json", "--root", str(ROOT), *two]) == 0
    views = {one["view"]: one for one in json.loads(capsys.readouterr().out)["views"]}
    assert {"measure", "ruler_samples", "document_tokens", "fit_layers", "timings"} <= set(views)
    assert views["ruler_samples"]["columns"]["score"] == "DOUBLE"
    assert all(next(iter(one["columns"])) == "experiment" for one in views.values())


def test_every_listed_view_can_be_asked():
    """None is empty, in all published results."""
    database = Database([Results(path.name, path) for path in PUBLISHED.iterdir() if measured(path)])
    for view in database.views():
        assert database.ask(f"SELECT count(*) FROM {view.name}").rows[0][0] > 0


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("selec 1", 'syntax error at or near "selec"'),
        ("select nothing from ruler_samples", 'Referenced column "nothing" not found'),
        ("select * from rulers", "Table with name rulers does not exist"),
        ("select 1; select 2", "found 2 statements, expected one SELECT"),
        ("", "found 0 statements"),
        ("select 1 / 'a'", "DuckDB cannot answer"),
        ("drop view ruler_samples", "kind DROP, expected a SELECT"),
        ("create table mine as select 1", "kind CREATE"),
        ("insert into results_0.file_0 select * from results_0.file_0", "kind INSERT"),
        ("copy (select 1) to 'FOLDER/out.csv'", "kind COPY"),
        ("attach 'FOLDER/out.db'", "kind ATTACH"),
        ("install httpfs", "kind LOAD"),
        ("set enable_external_access = true", "kind SET"),
        ("select * from read_csv('FOLDER/secret.csv')", "reads the views alone"),
        ("select * from read_text('FOLDER/secret.csv')", "reads the views alone"),
        ("select * from glob('FOLDER/*')", "reads the views alone"),
        ("select * from 'FOLDER/secret.csv'", "reads the views alone"),
        ("select * from arguments", "does not exist"),
    ],
)
def test_anything_but_reading_the_views_is_refused_in_a_sentence(capsys, tmp_path, sql, said):
    """Exit code 2, DuckDB's reason, nothing written and nothing of another file shown."""
    (tmp_path / "secret.csv").write_text("word\nopensesame\n")
    assert cli.main(["query", sql.replace("FOLDER", str(tmp_path)), *ONE]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert said in printed.err
    assert "opensesame" not in printed.err
    assert [path.name for path in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize("words", [[], ["select 1", "--tables"], ["--tables", "--csv"]])
def test_what_is_asked_for_has_to_be_clear(capsys, words):
    """A statement or the list of tables, and no CSV of the latter."""
    assert cli.main(["query", *words, *ONE]) == 2
    assert "expected a SELECT" in capsys.readouterr().err or "--csv" in words


def test_csv_and_json_hold_every_row_as_it_is(capsys):
    """Line ends inside answers, lists, and NULL survive."""
    sql = "select item, parts, null as nothing, e'a\\nb' as text from ruler_items where arm = 'exact' order by all"
    found = answer(capsys, sql, *ONE)
    assert found["columns"] == ["item", "parts", "nothing", "text"]
    assert len(found["rows"]) == 40
    assert cli.main(["query", sql, "--csv", *ONE]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [json.loads(row["parts"]) for row in rows] == [row[1] for row in found["rows"]]
    assert {(row["nothing"], row["text"]) for row in rows} == {("", "a\nb")}


def test_wide_and_long_answers_stay_readable(capsys):
    """100 columns at most; a row is a block when its columns do not fit; what is hidden is counted."""
    assert cli.main(["query", "select * from ruler_samples", *ONE]) == 0
    wide = capsys.readouterr().out
    assert max(map(len, wide.splitlines())) <= 100
    assert wide.startswith("row 1\n")
    assert "(600 rows; 595 not shown, add --all or --csv)" in wide
    assert cli.main(["query", "select arm, prediction from ruler_samples", *ONE]) == 0
    long = capsys.readouterr().out.splitlines()
    assert max(map(len, long)) <= 100
    assert len(long) == 43
    assert cli.main(["query", "select arm from ruler_samples", "--all", *ONE]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 603


def test_a_table_lines_up_numbers_and_keeps_a_terminal_safe():
    """Fractions get equally many digits; signs that steer a terminal are blanks."""
    made = Answer(("name", "value"), ("VARCHAR", "DOUBLE"), (("a\x1b[2J", 1.5), ("b", 10.25), ("c", None)))
    assert as_table(made).splitlines() == [
        "name   value",
        "-----  -----",
        "a [2J   1.50",
        "b      10.25",
        "c       NULL",
        "(3 rows)",
    ]
    assert as_table(Answer(("x",), ("DOUBLE",), ())).splitlines() == ["x", "-", "(0 rows)"]
