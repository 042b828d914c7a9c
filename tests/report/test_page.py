"""The report as text: complete, unchanged in its numbers, and the same on every run."""

import json
import re
import shutil

import pytest

from ridgefill.errors import ResultsError
from ridgefill.paper.files import find_root, load_paper
from ridgefill.recompute import recompute
from ridgefill.results import files_of, read_json
from ridgefill.tables import render
from ridgefill.tables.notes import CONDITIONS, conditions, load_notes

FIGURES = {"pareto", "split_curve", "tasks", "lam_curve", "widths", "cost", "timeline"}


def numbers(path):
    """Printed numbers of a report by cell id."""
    found = {}
    for identity, text in re.findall(r'data-cell="([^"]+)">([^<]*)<', path.read_text("utf-8")):
        found.setdefault(identity, set()).add(text)
    return found


def test_the_numbers_are_those_of_the_published_report(fresh, published):
    """Every number that the published report prints is printed alike by the new one, and recompute agrees."""
    for name, folder in fresh.items():
        old, new = numbers(published / name / "report.html"), numbers(folder / "report.html")
        assert old.keys() <= new.keys()
        assert {key: new[key] for key in old} == old
        assert not recompute(folder).mismatches


@pytest.mark.parametrize("name", ["smollm2_split19", "smollm2_suites", "smollm2_arms", "gemma3_270m_split11"])
def test_published_reports_stay_readable(published, name):
    """Reports made by earlier code still recompute."""
    assert not recompute(published / name).mismatches


def test_the_same_results_give_the_same_bytes(fresh, root, tmp_path):
    """Page and figures, the timeline among them, are the same when made again."""
    name = "smollm2_split19"
    again = shutil.copytree(fresh[name], tmp_path / name)
    render(again, root / "workflow/report/notes.yaml", root / "data/ledger")
    for path in [fresh[name] / "report.html", *(fresh[name] / "figures").iterdir()]:
        assert (again / path.relative_to(fresh[name])).read_bytes() == path.read_bytes(), path.name
    assert {path.stem for path in (again / "figures").iterdir()} == FIGURES


def test_what_an_earlier_report_had_more_is_removed(fresh, tmp_path):
    """Without a ledger there is no timeline, and that of the report before does not stay behind."""
    folder = shutil.copytree(fresh["smollm2_split19"], tmp_path / "smollm2_split19")
    (folder / "figures/mine.txt").write_text("not of the report")
    render(folder)
    assert {path.stem for path in (folder / "figures").iterdir()} == FIGURES - {"timeline"} | {"mine"}
    assert 'id="ledger"' not in (folder / "report.html").read_text("utf-8")


def test_the_summary_is_three_sentences_of_the_verdicts(fresh):
    """The counts, then predictions in their own words with what was observed."""
    text = (fresh["smollm2_split19"] / "report.html").read_text("utf-8")
    lead = re.sub(r"<[^>]+>", "", re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)[1])
    verdicts = read_json(fresh["smollm2_split19"] / "verdicts.json")
    held = sum(one["verdict"] == "supported" for one in verdicts)
    assert lead.startswith(f"Of {len(verdicts)} predictions registered before the run, {held} were supported, ")
    assert verdicts[0]["says"].rstrip(".") in lead
    assert len(re.findall(r"[.](?= [A-Z]|$)", lead)) == 3


def test_refuted_and_undecided_predictions_are_named_first_of_all(fresh, tmp_path):
    """With verdicts that fell otherwise, the third sentence names them; nothing is passed over."""
    folder = shutil.copytree(fresh["smollm2_split19"], tmp_path / "smollm2_split19")
    verdicts = read_json(folder / "verdicts.json")
    for one, fell in zip(verdicts, ("refuted", "undecided", "refuted", "refuted"), strict=False):
        one["verdict"] = fell
    (folder / "verdicts.json").write_text(json.dumps(verdicts))
    render(folder)
    text = (folder / "report.html").read_text("utf-8")
    lead = re.sub(r"<[^>]+>", "", re.search(r'<p class="lead">(.*?)</p>', text, re.DOTALL)[1])
    ids = [one["id"] for one in verdicts]
    assert f"Refuted were {ids[0]}, " in lead
    assert f"; {ids[2]}, " in lead
    assert ", and 1 more below; undecided was " + ids[1] in lead


def test_the_papers_numbers_stand_there_as_printed(fresh):
    """Every published number beside ours is one of data/paper, and ours are cells of this report's tables."""
    text = (fresh["smollm2_suites"] / "report.html").read_text("utf-8")
    facts = json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', text, re.DOTALL)[1])
    known = {(cell.ref, cell.model, cell.metric, cell.arm, cell.value) for cell in load_paper(find_root()).cells}
    assert len(facts["published"]) > 40
    for one in facts["published"]:
        value = one["text"].replace("\u2212", "-").lstrip("+")
        assert (one["ref"], one["model"], one["metric"], one["arm"], value) in known
    section = re.search(r'<section id="paper">.*?</section>', text, re.DOTALL)[0]
    ours = set(re.findall(r'data-cell="([^"]+)"', section))
    assert {"main.ridgefill.ruler_filled", "suites.ridgefill.agreement_top1", "main.ridgefill.nll_key"} <= ours
    assert ours <= facts["cells"].keys()


def test_facts_are_those_of_cells_json(fresh):
    """Value, n, query, run and ledger entry of every number."""
    folder = fresh["smollm2_split19"]
    text = (folder / "report.html").read_text("utf-8")
    facts = json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', text, re.DOTALL)[1])
    cells = read_json(folder / "cells.json")["cells"]
    assert facts["cells"].keys() == cells.keys()
    for key, (value, n, origin, _, _) in facts["cells"].items():
        cell = cells[key]
        assert [value, n, *facts["origins"][origin]] == [
            cell[name] for name in ("value", "n", "query", "run", "ledger_entry")
        ]


def test_deviations_are_those_of_the_run(fresh, published, root):
    """A run of all suites does not say that it has none; every condition is used or can hold."""
    notes = root / "workflow/report/notes.yaml"
    texts = {name: (folder / "report.html").read_text("utf-8") for name, folder in fresh.items()}
    assert "Only the four needle tasks are run." in texts["smollm2_split19"]
    assert "Only the four needle tasks are run." not in texts["smollm2_suites"]
    assert "The second question to a filled cache is not asked here." in texts["smollm2_split19"]
    assert "The second question is asked of short texts." in texts["smollm2_suites"]
    named = {one["where"] for some in load_notes(notes).values() for one in some if "where" in one}
    assert named == set(CONDITIONS)
    folder = published / "smollm2_suites"
    assert "agreement" in conditions(read_json(folder / "experiment.json"), files_of(folder))


def test_a_condition_that_does_not_exist_is_refused(tmp_path):
    """With the ones that do."""
    notes = tmp_path / "notes.yaml"
    notes.write_text("deviations: [{what: W., why: Y., where: sometimes}]\n")
    with pytest.raises(ResultsError, match="found the condition 'sometimes'; expected one of wheel"):
        load_notes(notes)
