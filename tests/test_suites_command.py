"""The list of suites: complete, true of this machine, and the same as its page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from ridgefill.cli import main
from ridgefill.config import load_experiment, with_overrides
from ridgefill.errors import ConfigError, RidgeFillError, TextError
from ridgefill.settings import Suites
from ridgefill.suites.catalog import CATALOG, NEEDS
from ridgefill.suites.needed_files import needed_files, require_files
from ridgefill.suites.presence import Machine, look
from ridgefill.suites.questions import small_set
from ridgefill.suites.ruler import LANGUAGE_TASKS, TASKS
from workflow.dag import Plan, Refused

ROOT = Path(__file__).parents[1]
DATA = "tests/suites/longbench/data"
BASE = load_experiment("smollm2_arms", ROOT)


def suites(**more):
    """The suites of an experiment with some added or changed."""
    ruler = {**BASE.suites.ruler.model_dump(), **more.pop("ruler", {})}
    return Suites.model_validate({**BASE.suites.model_dump(), **more, "ruler": ruler})


def listed(capsys, *words):
    assert main(["suites", "--root", str(ROOT), "--json", *words]) == 0
    return {one["suite"]: one for one in json.loads(capsys.readouterr().out)["suites"]}


def test_the_catalog_has_every_suite_and_every_task_once():
    """Keys of an experiment's suites, and RULER's thirteen tasks by group."""
    assert {suite.setting for suite in CATALOG} == set(Suites.model_fields)
    assert sorted(task for suite in CATALOG for task in suite.tasks) == sorted([*TASKS, *LANGUAGE_TASKS])
    assert {need for suite in CATALOG for need in suite.needs} == set(NEEDS)
    assert len({suite.name for suite in CATALOG}) == len(CATALOG)


def test_the_page_has_each_suite_in_three_lines():
    """A heading for each in the catalog's order, three lines below it, and the tasks of a group by name."""
    page = (ROOT / "docs" / "suites.md").read_text("utf-8")
    parts = dict(re.findall(r"^## (\w+)\n(.*?)(?=\n\n|\Z)", page, flags=re.MULTILINE | re.DOTALL))
    assert [name for name in parts if name != "LongBench"] == [suite.name for suite in CATALOG]
    for suite in CATALOG:
        assert len(parts[suite.name].strip().splitlines()) == 3
        assert all(task in parts[suite.name] for task in suite.tasks)


def test_the_settings_that_the_page_shows_are_valid():
    """Every ``suite: {...}`` of the page, as an experiment's file would have it."""
    page = (ROOT / "docs" / "suites.md").read_text("utf-8")
    shown = [yaml.safe_load(text) for text in re.findall(r"`((?:\w+): \{[^`]*\})`", page)]
    keys = {key for one in shown for key in one}
    assert {"agreement", "turns", "longbench_v1", "longbench_v2", "speed", "serving"} < keys
    for one in shown:
        changed = {"ruler": one} if set(one) & {"squad", "hotpotqa"} else one
        assert suites(**changed)


def test_every_suite_is_listed_with_its_published_numbers(capsys):
    """Each metric stands under the suite that measures it, with our measure where one stands beside it."""
    found = listed(capsys)
    assert list(found) == [suite.name for suite in CATALOG]
    published = {name: {hit["metric"]: hit["ours"] for hit in one["published"]} for name, one in found.items()}
    # The paper has no such language.
    assert [name for name, metrics in published.items() if not metrics] == ["ruler_language"]
    assert published["documents"]["nll_novel"] == "nll_novel"
    assert published["ruler_counting"]["ruler_cwe_16k"] == "ruler_cwe"
    assert "ruler_cwe_16k" not in published["ruler_single"]
    assert {"longbench_v2_easy", "longbench_v2_overall"} <= set(published["longbench_v2"])
    assert main(["suites", "--root", str(ROOT)]) == 0
    text = capsys.readouterr().out
    assert all(f"\n{suite.name}  (suites." in f"\n{text}" for suite in CATALOG)


def test_a_source_is_missing_until_it_is_unpacked(capsys, tmp_path):
    """With an empty folder of texts, what has to be typed names the source and the folder."""
    found = listed(capsys, "ruler_multi", "--texts", str(tmp_path))["ruler_multi"]
    assert {one["need"]: one["state"] for one in found["needs"]} == {
        "words": "missing", "essays": "missing", "official": "optional",
    }  # fmt: skip
    assert f"--cache {tmp_path} wonderwords" in found["needs"][0]["get"]


def test_an_experiment_says_what_it_asks_for(capsys):
    """Tasks and suites of its file; without an experiment nothing is said."""
    found = listed(capsys, "--experiment", "smollm2_arms")
    assert {name for name, one in found.items() if one["in_experiment"]} == {
        "ruler_single", "ruler_multikey", "documents",
    }  # fmt: skip
    assert {one["in_experiment"] for one in listed(capsys).values()} == {None}


def test_the_users_files_are_looked_for_where_the_experiment_names_them():
    """LongBench data that is there, and templates that are not; without an experiment they are for the user to name."""
    given = suites(longbench_v1={"folder": f"{DATA}/v1", "datasets": ["trec"], "samples": 1, "budget": 500,
                                 "templates": "nowhere.json"})  # fmt: skip
    experiment = BASE.model_copy(update={"suites": given})
    suite = next(one for one in CATALOG if one.name == "longbench_v1")
    here = {one.need: one for one in look(suite, Machine(ROOT, ROOT / "texts", ROOT / "models", experiment))}
    assert (here["longbench_v1"].state, here["templates"].state) == ("here", "missing")
    assert "nowhere.json" in here["templates"].get
    nobody = {one.need: one.state for one in look(suite, Machine(ROOT, ROOT / "texts", ROOT / "models"))}
    assert (nobody["longbench_v1"], nobody["templates"]) == ("yours", "optional")


def test_an_unknown_suite_is_one_sentence_with_the_known_ones(capsys):
    """And no traceback."""
    assert main(["suites", "ruler", "--root", str(ROOT)]) == ConfigError.exit_code
    assert "no suite 'ruler'; the known ones are ruler_single" in capsys.readouterr().err


V1 = {"folder": f"{DATA}/v1", "datasets": ["trec"], "samples": 2, "budget": 500}


@pytest.mark.parametrize(
    ("more", "kind", "said"),
    [
        ({"longbench_v1": {**V1, "datasets": ["trec", "qasper"]}}, TextError, r"longbench_v1\.folder \(qasper\) is .*"),
        ({"longbench_v1": {**V1, "templates": "no.json"}}, TextError, r"longbench_v1\.templates is no\.json"),
        ({"longbench_v2": {"file": "no.json"}}, TextError, r"longbench_v2\.file is no\.json, and nothing is there"),
        (
            {"longbench_v2": {"file": f"{DATA}/v2.json", "reasoning_template": "a"}}, ConfigError,
            "give reasoning_template and answer_template, or neither",
        ),
        ({"ruler": {"tasks": ["qa_2"], "hotpotqa": {"path": "no.json"}}}, TextError, r"ruler\.hotpotqa is no\.json"),
        ({"ruler": {"source": "official", "official": "no"}}, TextError, r"ruler\.official is no, "),
        ({"ruler": {"source": "official", "official": "tests"}}, TextError, "no RULER file of niah_single_1 at 1024"),
    ],
)  # fmt: skip
def test_files_that_are_not_there_are_refused_by_their_setting(more, kind, said):
    """Before anything runs, in one sentence."""
    with pytest.raises(kind, match=said):
        require_files(suites(**more), ROOT)


def test_files_of_tasks_that_do_not_run_are_not_asked_for():
    """A set of questions without its task is nobody's need."""
    given = suites(ruler={"squad": {"path": "no.json"}})
    assert needed_files(given) == []
    require_files(given, ROOT)


def test_more_samples_than_questions_are_refused_while_planning(monkeypatch):
    """The small set asks each question once: its own size passes, one more does not, naming the setting."""
    size = len(small_set("qa_1", ROOT / "data/texts/qa_small.json").questions)
    require_files(suites(ruler={"tasks": ["qa_1"], "samples": size}), ROOT)
    too_many = suites(ruler={"tasks": ["qa_1"], "samples": size + 1})
    with pytest.raises(ConfigError, match=rf"at most {size} samples, or a larger file .* suites\.ruler\.squad"):
        require_files(too_many, ROOT)
    experiment = BASE.model_copy(update={"suites": too_many})
    monkeypatch.setattr("workflow.dag.load_experiment", lambda name, root: experiment)
    plan = Plan(ROOT, {"ledger_branch": "local", "model_path": "", "models": "models", "texts": "texts", "kva": ""})
    with pytest.raises(Refused, match="asks a question once"):
        plan.admit("results/smollm2_arms")


def test_a_package_that_scores_need_is_asked_for_only_by_its_datasets(monkeypatch):
    """Chinese questions need words; Chinese retrieval and English do not."""
    monkeypatch.setattr("ridgefill.suites.longbench.inputs.find_spec", lambda _: None)
    require_files(suites(longbench_v1=V1), ROOT)
    with pytest.raises(ConfigError, match="pip install jieba"):
        require_files(suites(longbench_v1={**V1, "datasets": ["multifieldqa_zh"]}), ROOT)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"longbench_v1": {**V1, "budget": 8192}}, r"longbench_v1\.budget plus the longest answer is 8256 tokens"),
        ({"longbench_v1": {**V1, "budget": 128}}, r"expected a prompt over the tail \(128\)"),
        ({"longbench_v1": {**V1, "datasets": ["triviaqa", "trek"]}}, r"datasets: no LongBench dataset 'trek'"),
        ({"longbench_v2": {"file": "x"}}, r"longbench_v2\.budget plus the reasoning is 121024 tokens"),
        ({"longbench_v1": {**V1, "arms": ["exact", "nobody"]}}, r"longbench_v1\.arms: has 'nobody'"),
    ],
)
def test_prompts_that_cannot_fit_the_model_are_refused_with_the_configuration(more, said):
    """Budget, answer and tail against the model's context; datasets and arms by name."""
    from ridgefill.config import check_fits_model, load_model

    experiment = with_overrides(BASE, {}).model_copy(update={"suites": suites(**more)})
    with pytest.raises(RidgeFillError, match=said):
        check_fits_model(experiment, load_model(experiment.model, ROOT), "here.yaml")
