"""Tables, figures and report: complete, deterministic, self-contained."""

import csv
import json
import re
import shutil
import subprocess
import sys

import pytest

from ridgefill.errors import NumericsError, ResultsError
from ridgefill.tables import main_table_markdown, render
from ridgefill.tables.grid import (
    Cell,
    Column,
    Entry,
    Origin,
    Table,
    format_number,
    render_csv,
    render_markdown,
)
from ridgefill.tables.report import load_notes

ORIGIN = Origin("main.sql", "ruler", "7")


@pytest.fixture
def undrawn(monkeypatch):
    """Render without figures, which take most of the time."""
    monkeypatch.setattr("ridgefill.tables.figures.pictures", lambda _: [])


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (12.25, "points", "12.2"),
        (-0.04, "points_difference", "0.0"),
        (0.0512, "nats_difference", "+0.051"),
        (-3.2, "points_difference", "\u22123.2"),
        (0.7314, "percent", "73.1"),
        (184320, "count", "184,320"),
        (1234567, "power", "1.23e+06"),
        (None, "points", "n/a"),
    ],
)
def test_numbers_are_printed_one_way(value, kind, text):
    """Digits, sign, separators and absence follow from the kind; a rounded zero has no sign."""
    assert format_number(value, kind) == text


def test_nan_is_never_printed():
    """A NaN that reached a table is an error, not the text nan."""
    with pytest.raises(NumericsError):
        format_number(float("nan"), "points")


def test_markdown_and_csv_show_the_same_numbers():
    """Markdown has the interval in brackets, CSV in columns of their own with an ASCII minus."""
    cells = [Cell(f"t.x{end}", value, "points_difference", 9, ORIGIN) for end, value in
             (("", -1.5), (".low", -2.0), (".high", 1.0))]  # fmt: skip
    columns = (Column("arm", "Arm", label=True), Column("x", "X", "points", interval=True))
    table = Table("t", "T", "", columns, ((Entry(label="a|b"), Entry("", *cells)),))
    assert render_markdown(table) == ("| Arm | X (points) |\n|---|---:|\n| a\\|b | \u22121.5 [\u22122.0, +1.0] |\n")
    assert render_csv(table) == "arm,x,x_low,x_high\na|b,-1.5,-2.0,+1.0\n"


def test_the_main_table_has_every_arm_with_intervals(bare):
    """Nine arms in print order; every arm but exact shows five intervals."""
    lines = main_table_markdown(bare).splitlines()[2:]
    assert [line.split("|")[1].strip() for line in lines] == [
        "exact", "no fill", "identity fill", "RidgeFill", "POP at its own split", "RidgeFill + chosen rows",
        "RidgeFill + random rows", "RidgeFill, longer tail", "no fill, longer tail",
    ]  # fmt: skip
    assert [line.count("[") for line in lines] == [2] + [5] * 8


def test_the_rendered_main_table_is_the_one_made_from_parquet_alone(rendered):
    """What a README shows can be regenerated without the report."""
    assert (rendered / "tables/main.md").read_text() == main_table_markdown(rendered)


def test_every_number_of_every_table_has_a_cell_and_an_origin(rendered):
    """cells.json knows each id once, with its query, run, ledger entry and size."""
    document = json.loads((rendered / "cells.json").read_text())
    used = [i for rows in document["tables"].values() for row in rows for e in row if isinstance(e, list) for i in e]
    assert sorted(used) == sorted(document["cells"])
    for cell in document["cells"].values():
        assert cell["query"].endswith(".sql")
        assert cell["run"] in {"ruler", "documents", "lam", "fit"}
        assert cell["ledger_entry"] in {"5", "7", "9"}
    assert document["cells"]["main.ridgefill.nll_key"]["n"] == 11


def test_csv_files_parse_as_numbers(rendered):
    """Each CSV is rectangular and its interval columns are numbers that bracket the estimate's digits."""
    for path in sorted((rendered / "tables").glob("*.csv")):
        rows = list(csv.reader(path.open(encoding="utf-8")))
        assert len({len(row) for row in rows}) == 1, path
    contrasts = list(csv.DictReader((rendered / "tables/contrasts.csv").open(encoding="utf-8")))
    assert len(contrasts) == 25
    for row in contrasts:
        assert float(row["difference_low"]) <= float(row["difference_high"])


def test_rendering_twice_gives_the_same_bytes(rendered, tmp_path):
    """Tables, figures (PNG and SVG) and report depend on the results and on nothing else."""
    folder = shutil.copytree(rendered, tmp_path / rendered.name)
    render(folder)
    for path in sorted(p for p in rendered.rglob("*") if p.is_file()):
        assert (folder / path.relative_to(rendered)).read_bytes() == path.read_bytes(), path


def test_the_report_is_one_file(rendered):
    """No script, style, image or font is loaded from anywhere, and all figures are inside."""
    text = (rendered / "report.html").read_text()
    assert not re.search(r"""(src|href)=["'](?!#)""", re.sub(r"xlink:href", "", text).replace('href="#', ""))
    assert "http://" not in re.sub(r"http://www\.w3\.org/\S+", "", text)
    assert text.count('<svg class="wide"') == text.count('<svg class="narrow"') == 6
    assert sorted(p.name for p in (rendered / "figures").iterdir()) == sorted(
        f"{name}.{kind}"
        for name in ("cost", "lam_curve", "pareto", "split_curve", "tasks", "widths")
        for kind in ("png", "svg")
    )


def test_the_report_shows_verdicts_whichever_way_they_fell(rendered):
    """One card per prediction with its word, and the tally on top."""
    text = (rendered / "report.html").read_text()
    for word in ("supported", "refuted", "undecided"):
        assert f'<article class="card {word}">' in text
        assert re.search(rf'data-cell="summary.{word}">1</span> {word}', text)


def test_a_run_without_a_claim_says_that_nothing_is_confirmatory(bare, undrawn, tmp_path):
    """Without claim and verdicts the report renders and does not pretend."""
    folder = shutil.copytree(bare, tmp_path / "r")
    (folder / "claim.yaml").unlink()
    (folder / "verdicts.json").unlink()
    render(folder)
    assert "none of its numbers is confirmatory" in (folder / "report.html").read_text()
    assert not (folder / "tables/verdicts.md").exists()


def test_verdicts_of_another_claim_are_refused(bare, undrawn, tmp_path):
    """Verdicts whose ids are not the claim's end in one sentence."""
    folder = shutil.copytree(bare, tmp_path / "r")
    (folder / "verdicts.json").write_text('[{"id": "else", "verdict": "supported"}]')
    with pytest.raises(ResultsError, match="evaluate the claim again"):
        render(folder)


def test_notes_reach_the_report_and_are_checked(bare, undrawn, tmp_path):
    """Methods, deviations and limits are printed, escaped; an unknown key is refused."""
    notes = tmp_path / "notes.yaml"
    notes.write_text(
        "methods: [{title: Words, text: 'One.\n\n\n  Two <b>.'}]\ndeviations: [{what: W., why: Y.}]\nlimits: [L.]\n"
    )
    folder = shutil.copytree(bare, tmp_path / "r")
    render(folder, notes)
    text = (folder / "report.html").read_text()
    assert "Two &lt;b&gt;." in text
    assert "<strong>W.</strong> Y." in text
    notes.write_text("method: []\n")
    with pytest.raises(ResultsError, match="expected methods"):
        load_notes(notes)


def test_the_command_prints_one_line_or_one_error(bare, tmp_path):
    """python -m ridgefill.tables ends with counts, or with one sentence and no traceback."""
    folder = shutil.copytree(bare, tmp_path / "r")
    command = [sys.executable, "-m", "ridgefill.tables", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "6 figures" in done.stdout
    (folder / "experiment.json").write_text("{}")
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode == 7
    assert failed.stderr.startswith("error: ")
    assert len(failed.stderr.splitlines()) == 1
