"""Two runs of one experiment: what counts as rounding, and what does not."""

from __future__ import annotations

import json
import shutil

import pytest

from ridgefill.result_schemas import SCHEMAS
from workflow.compare.__main__ import main
from workflow.compare.columns import COLUMNS, LOSS
from workflow.compare.folders import Comparison, compare

from .conftest import ROOT, edit, set_value

TOKENS, SAMPLES, ARMS = "documents/tokens.parquet", "ruler/samples.parquet", "ruler/arms.parquet"


def small(row):
    """A loss in whose neighbourhood float32 can tell 1e-7 apart."""
    return row["arm"] == "ridgefill" and 0.1 < row["nll"] < 0.5


def ridgefill(row):
    """A sample of one arm that answered something."""
    return row["arm"] == "ridgefill" and len(row["prediction"]) > 3


def shifted(rows, by, chosen):
    """Rows with another loss where chosen."""
    return [{**row, "nll": row["nll"] + by} if chosen(row) else row for row in rows]


def only(found: Comparison):
    """The one difference there is."""
    (difference,) = found.differences
    return difference


def test_a_copy_is_equal(two_runs, capsys):
    """No difference, and the command says so and ends with 0."""
    assert main([str(path) for path in two_runs]) == 0
    assert capsys.readouterr().out.endswith("values compared: 0 differ by rounding, 0 beyond\n")


def test_a_loss_that_moves_by_rounding_is_noise(two_runs, capsys):
    """1e-7 nats: named, and forgiven."""
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-7, small))
    difference = only(compare(*two_runs))
    assert difference.noise
    assert 0 < difference.by < 2e-7
    assert main([str(path) for path in two_runs]) == 0
    assert "1 differ by rounding, 0 beyond" in capsys.readouterr().out


def test_a_loss_that_moves_by_a_hundredth_is_not(two_runs, capsys):
    """1e-2 nats of one token: named with document, position and distance, and the command ends with 1."""
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-2, small))
    (difference,) = (each for each in compare(*two_runs).beyond if each.column == "nll")
    assert difference.by == pytest.approx(1e-2, rel=1e-4)
    assert main([str(path) for path in two_runs]) == 1
    said = capsys.readouterr().out
    assert "BEYOND NOISE: documents/tokens.parquet: document=" in said
    assert "position=" in said


def test_maps_that_were_fitted_to_other_bits_move_losses_further(two_runs):
    """A hundredth of a nat, once a fit ends in other last bits: noise for an arm that reads maps, for no other."""
    layers = two_runs[1] / "fit/fit_layers.parquet"
    edit(layers, set_value("alpha", lambda alpha: alpha * (1 + 1e-7), lambda row: True))
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-2, small))
    assert not compare(*two_runs).beyond
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-2, lambda row: row["arm"] == "exact"))
    assert [each.arm for each in compare(*two_runs).beyond if each.column == "nll"] == ["exact"]


def test_losses_that_all_lean_one_way_are_not_rounding(two_runs):
    """Half the bound on every token of an arm: each passes alone, their mean does not."""
    by = LOSS.absolute / 2
    edit(two_runs[1] / TOKENS, lambda rows: shifted(rows, by, lambda row: row["arm"] == "ridgefill"))
    found = {each.column: each for each in compare(*two_runs).beyond}
    assert set(found) == {"mean of nll", "root mean square of nll"}
    assert found["mean of nll"].arm == "ridgefill"
    assert found["mean of nll"].by == pytest.approx(by, rel=1e-3)


def test_an_answer_alone_is_not_noise(two_runs):
    """Where every measurement has the same bits, nothing was rounded, and nothing else turns an answer."""
    edit(two_runs[1] / SAMPLES, set_value("prediction", lambda text: text[:-1] + "~", ridgefill))
    difference = only(compare(*two_runs))
    assert (difference.kind, difference.noise) == ("answer", False)
    assert "last bits" in difference.why


def test_one_answer_may_turn_where_rounding_was_seen(two_runs):
    """The same answer, beside losses that differ in their last bits; its score goes with it."""
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-7, small))
    edit(two_runs[1] / SAMPLES, set_value("score", lambda score: 1.0 - score, ridgefill))
    edit(two_runs[1] / SAMPLES, set_value("prediction", lambda text: text[:2] + "~", ridgefill))
    found = compare(*two_runs)
    assert not found.beyond
    assert {each.column for each in found.noise} == {"nll", "prediction"}


def test_an_answer_that_differs_from_its_first_letter_is_not_noise(two_runs):
    """A near tie turns an answer somewhere inside; another answer altogether is another answer."""
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-7, small))
    edit(two_runs[1] / SAMPLES, set_value("prediction", lambda text: "~" + text, ridgefill))
    (difference,) = compare(*two_runs).beyond
    assert "first letter" in difference.why


def test_many_answers_do_not_turn_by_near_ties(two_runs):
    """Every answer of an arm cut short, with rounding seen: beyond noise, all of them."""
    edit(two_runs[1] / TOKENS, set_value("nll", lambda nll: nll + 1e-7, small))
    edit(two_runs[1] / SAMPLES, lambda rows: [
        {**row, "prediction": row["prediction"][:1]} if row["arm"] == "exact" else row for row in rows
    ])  # fmt: skip
    beyond = compare(*two_runs).beyond
    assert len(beyond) > 5
    assert all("of this arm turned" in each.why for each in beyond)


def test_a_score_alone_is_not_noise(two_runs):
    """The same answer with another score."""
    edit(two_runs[1] / SAMPLES, set_value("score", lambda score: 0.5 - score, ridgefill))
    assert only(compare(*two_runs)).column == "score"
    assert compare(*two_runs).beyond


@pytest.mark.parametrize("reverse", [False, True])
def test_a_missing_row_is_named(two_runs, reverse):
    """Whichever run lacks it."""
    edit(two_runs[1] / SAMPLES, lambda rows: rows[:7] + rows[8:])
    difference = only(compare(*(two_runs[::-1] if reverse else two_runs)))
    assert "task=" in difference.row
    assert difference.why == f"the {'first' if reverse else 'second'} run lacks it"


def test_a_missing_file_is_named_and_a_new_one_is_listed(two_runs):
    """The reference says what has to be there."""
    (two_runs[1] / ARMS).unlink()
    assert only(compare(*two_runs)).file == ARMS
    back = compare(*two_runs[::-1])
    assert (back.own, back.differences) == ((ARMS,), ())


def test_work_may_be_reckoned_otherwise_by_another_version_only(two_runs):
    """A count half a percent higher: forgiven from another commit, not from the same, and never beyond a percent."""
    chosen = set_value("macs", lambda macs: int(macs * 1.005), ridgefill)
    edit(two_runs[1] / SAMPLES, chosen)
    assert "one version" in only(compare(*two_runs)).why
    edit(two_runs[1] / SAMPLES, lambda rows: rows, {"git_commit": "0" * 40})
    found = compare(*two_runs)
    assert (len(found.recounts), found.beyond) == (1, ())
    edit(two_runs[1] / SAMPLES, set_value("macs", lambda macs: int(macs * 1.02), ridgefill))
    assert compare(*two_runs).beyond


def test_times_are_the_machines_own(two_runs):
    """Other seconds are no difference, yet a missing timing is one."""
    path = two_runs[1] / "ruler/timings.parquet"
    edit(path, lambda rows: [{**row, "exact_seconds": row["exact_seconds"] + 1} for row in rows])
    assert not compare(*two_runs).differences
    edit(path, lambda rows: rows[1:])
    assert compare(*two_runs).beyond


def test_another_setting_or_seed_is_said_first(two_runs, capsys):
    """A run under other settings is no repetition."""
    settings = two_runs[1] / "experiment.json"
    settings.write_text(settings.read_text().replace('"tail": 128', '"tail": 64', 1))
    edit(two_runs[1] / SAMPLES, lambda rows: rows, {"run_seed": "1"})
    assert {each.column for each in compare(*two_runs).beyond} == {"experiment.tail", "run_seed"}
    assert main([*map(str, two_runs), "--show", "1"]) == 1
    assert "BEYOND NOISE: experiment.json: settings: experiment.tail 128 and 64" in capsys.readouterr().out


def test_a_setting_that_one_version_does_not_know_is_listed(two_runs, capsys):
    """Settings grow; a default that is written down later changes nothing."""
    path = two_runs[1] / "experiment.json"
    settings = json.loads(path.read_text())
    settings["experiment"]["newer"] = 1
    path.write_text(json.dumps(settings))
    assert main(list(map(str, two_runs))) == 0
    assert "only one version knows, not compared: experiment.newer" in capsys.readouterr().out


def test_a_verdict_that_falls_the_other_way_is_not_noise(two_runs):
    """Whatever the samples say."""
    path = two_runs[1] / "verdicts.json"
    path.write_text(path.read_text().replace('"verdict": "supported"', '"verdict": "refuted"', 1))
    assert only(compare(*two_runs)).file == "verdicts.json"


def test_json_has_every_difference(two_runs, tmp_path):
    """More than are shown."""
    edit(two_runs[1] / SAMPLES, lambda rows: rows[5:])
    out = tmp_path / "all.json"
    assert main([*map(str, two_runs), "--show", "0", "--json", str(out)]) == 1
    assert len(json.loads(out.read_text())["beyond"]) == 5


@pytest.mark.parametrize("bad", ["nowhere", "empty", "other"])
def test_folders_that_cannot_be_compared_are_refused_in_a_sentence(two_runs, tmp_path, capsys, bad):
    """A folder that is not there, one without results, one of another experiment."""
    (tmp_path / "empty").mkdir()
    shutil.copytree(ROOT / "data/results/smollm2_lengths", tmp_path / "other")
    assert main([str(two_runs[0]), str(tmp_path / bad)]) == 7
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "expected" in said


def test_two_rows_of_one_name_are_refused(two_runs, capsys):
    """Which of them counts could not be said."""
    edit(two_runs[1] / SAMPLES, lambda rows: [*rows, rows[0]])
    assert main(list(map(str, two_runs))) == 7
    assert "two rows for task=" in capsys.readouterr().err


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_results_file_has_its_columns_named(name):
    """Only columns that exist, each in one role, and every float either measured, following, or the machine's own."""
    columns, schema = COLUMNS[name], SCHEMAS[name]
    follows = [column for each in columns.answers.values() for column in each]
    roles = [*columns.keys, *columns.answers, *follows, *columns.choices, *columns.measures, *columns.own]
    assert len(roles) == len(set(roles))
    assert set(roles) <= set(schema.names)
    floats = {field.name for field in schema if str(field.type) in ("float", "double")}
    # The lam that was chosen is one of a few: another one is another map.
    assert floats <= {*roles, "lam"}


@pytest.mark.parametrize("name", ["smollm2_suites", "gemma3_270m_arms"])
def test_published_rows_have_names_of_their_own(name):
    """Folders with every file there is are equal to themselves, so the keys name the rows."""
    folder = ROOT / "data/results" / name
    assert not compare(folder, folder).differences
