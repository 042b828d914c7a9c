"""What a trace makes of the rows it shows is what each table prints, for every kind of number there is."""

import runpy
import shutil
from pathlib import Path

import pytest

from ridgefill.measures import Measures
from ridgefill.tables import render
from ridgefill.tracing import rows as tracing_rows
from ridgefill.tracing.answers import SOURCES, source_of, with_answers
from ridgefill.tracing.basis import Context, basis_of
from ridgefill.tracing.finding import find_cell, open_report, place_of
from ridgefill.tracing.folders import Results
from ridgefill.tracing.numbers import has_own, make
from ridgefill.tracing.page import page
from ridgefill.tracing.rows import fetch, leaves_of, rows_of, runnable
from ridgefill.tracing.trace import trace

ROOT = Path(__file__).parents[2]
PUBLISHED = sorted(path.parent for path in (ROOT / "data/results").glob("*/cells.json"))
LONGBENCH = runpy.run_path(str(Path(__file__).with_name("longbench_rows.py")))
# Numbers that only resampling or a rule gives; the second code path alone makes them again.
SECOND_ONLY = {"lower", "bootstrap", "bound", "p_value", "layer_ceiling", "of_layer_ceiling", "of_mac_ceiling"}


@pytest.fixture(scope="module")
def made(spliced, tmp_path_factory):
    """Reports of the second version of cells.json: of splices, and of LongBench; without figures."""
    folders = [
        shutil.copytree(spliced, tmp_path_factory.mktemp("spliced") / spliced.name),
        LONGBENCH["build"](tmp_path_factory.mktemp("longbench") / "synthetic_split19"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ridgefill.tables.figures.pictures", lambda _: [])
        for folder in folders:
            render(folder)
    return folders


@pytest.fixture(autouse=True)
def _asked_once(monkeypatch):
    """Many cells of a table come of one query; a trace shows one cell, so the library does not keep what it gave."""
    ask, answers = tracing_rows.fetch, {}

    def fetch_once(measures, sql, parameters):
        key = (measures, sql, repr(parameters))
        if key not in answers:
            answers[key] = ask(measures, sql, parameters)
        return answers[key]

    monkeypatch.setattr(tracing_rows, "fetch", fetch_once)


class Traced:
    """A folder opened once for many cells."""

    def __init__(self, folder):
        self.report = open_report(Results("x", Path(folder)))
        self.measures = Measures(Path(folder))
        # Made once and not by every query.
        self.measures.connection.execute("CREATE TABLE made AS SELECT * FROM measure")
        self.measures.connection.execute("CREATE OR REPLACE VIEW measure AS SELECT * FROM made")
        self.context = Context(self.measures.settings.split, leaves_of(Path(folder)))

    def kinds(self):
        """One cell of every table, way of making it and measure: the last, and its basis."""
        found = {}
        for cell in self.report.cells:
            basis = basis_of(cell, self.context)
            assert basis is not None, cell
            found[cell.split(".")[0], basis.makes, basis.metric, basis.file, bool(basis.baseline)] = (cell, basis)
        return found.values()


def check_numbers(folder):
    """Every kind of number of a folder: the rows make it, and its query run by hand gives as many rows."""
    traced = Traced(folder)
    without = set()
    kinds = list(traced.kinds())
    for cell, basis in kinds:
        stored = traced.report.cells[cell.removesuffix(".low").removesuffix(".high")]
        rows = rows_of(traced.measures, basis)
        assert stored["query"] == basis.query
        assert rows, cell
        if not has_own(basis.makes):
            without.add(cell.rsplit(".", 1)[1])
            continue
        _, value = make(basis.makes, rows, basis.parameters)
        if isinstance(stored["value"], float):
            assert value == pytest.approx(stored["value"], rel=1e-9, abs=1e-9), cell
        else:
            assert value == stored["value"], cell
        sql = runnable(traced.measures, basis)
        assert bool(sql) == (basis.rows != "outcomes")
        if sql:
            by_hand = fetch(traced.measures, sql, {})
            assert len(by_hand) == (1 if basis.rows else len(rows)), cell
    assert len(kinds) > 40
    assert without - {"observed", "verdict"} <= SECOND_ONLY


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.name)
def test_the_rows_of_a_published_report_make_what_it_prints(folder):
    """cells.json of the first version."""
    check_numbers(folder)


@pytest.mark.parametrize("place", [0, 1], ids=["splices", "longbench"])
def test_the_rows_of_a_report_made_today_make_what_it_prints(made, place):
    """cells.json of the second version, with the tables that no published report has."""
    assert open_report(Results("x", Path(made[place]))).document["version"] == 2
    check_numbers(made[place])


def test_the_rows_of_every_arm_make_what_it_prints(rendered):
    """All tables that a run without suites has, all arms, and verdicts."""
    check_numbers(rendered)


def test_every_cell_is_told_apart_in_every_report(made, rendered):
    """No cell of any table is without a basis, and its words are not those of another measure's cell."""
    for folder in (*PUBLISHED, *made, rendered):
        traced = Traced(folder)
        words = {}
        for cell in traced.report.cells:
            basis = basis_of(cell, traced.context)
            assert basis is not None
            same = words.setdefault((cell.split(".")[0], basis.words, basis.end), cell)
            # A verdict has as many conditions as it likes on one measure.
            assert same == cell or cell.startswith(("verdicts.", "tasks.", "contrasts.")), (cell, same)


@pytest.mark.parametrize("folder", PUBLISHED, ids=lambda path: path.name)
def test_every_item_has_its_prompt_or_document(folder):
    """No item of a measured number is without what lies behind it, of the arm that is asked about."""
    traced = Traced(folder)
    asked = set()
    for _, basis in traced.kinds():
        if basis.metric and not basis.rows and basis.arm:
            asked.add(source_of(basis.metric))
            rows = with_answers(traced.measures, basis, rows_of(traced.measures, basis))
            assert all(row.keys() & {"prompt", "domain", "seconds"} for row in rows)
            scored = [row for row in rows if "score" in row and row["own"] is not None]
            assert all(row["own"] == 100.0 * row["score"] for row in scored)
    assert {"ruler", "nll"} <= asked <= set(SOURCES)


def test_place_and_words_lead_back_to_every_number(rendered):
    """Table, row and column as printed find the cell that is printed there."""
    report = open_report(Results("x", rendered))
    seen = 0
    for cell in report.cells:
        place = place_of(report, cell)
        if cell == place.ids[0]:
            words = [place.table, place.row, place.column]
            assert find_cell(report, words) == cell
            seen += 1
    assert seen > 300


def test_a_trace_of_a_run_without_ledger_says_so(rendered):
    """What provenance.json has is shown, and the start that is not there is named."""
    report = open_report(Results("synthetic_split19", rendered))
    found = trace(report, "main.ridgefill.ruler_all", rendered.parent, lambda root, branch: None)
    assert found["problems"] == ["the start 7 is not in any ledger"]
    assert found["run"]["start"] == 6
    assert all(check["agrees"] for check in found["checks"])
    text = page(found)
    assert "problem       the start 7 is not in any ledger" in text
    assert max(map(len, (line for line in text.splitlines() if not line.startswith("    ")))) <= 100
