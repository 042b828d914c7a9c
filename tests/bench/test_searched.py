"""The best setting's row has a value only where non-inferiority was shown, and says what was found otherwise."""

import json
from math import isnan

import pytest

from ridgefill.bench.searched import rows
from ridgefill.errors import ResultsError


@pytest.fixture
def tuned(tmp_path):
    """``tuned(shown)``: the row of a folder whose search ended so."""

    def make(shown):
        found = {
            "prompt_tokens": 8192,
            "recommended": {"candidate": "split17-tail512", "ceiling": 1.57},
            "confirmation": {"shown": shown, "test": {"estimate": -1.0, "bound": -2.5, "margin": 3.0, "n": 120}},
        }
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "tune.json").write_text(json.dumps(found), "utf-8")
        return next(rows(tmp_path, ["model"]))

    return make


def test_a_setting_that_was_shown_counts_with_its_speedup(tuned):
    """Against the target, with what the held-out samples said."""
    row = tuned(True)
    assert (row.value, row.met) == (1.57, True)
    assert "-1.0 points, at least -2.5, margin 3 (n = 120): shown" in row.limited


def test_a_setting_that_was_not_shown_has_no_value(tuned):
    """However fast it is."""
    row = tuned(False)
    assert isnan(row.value)
    assert "NOT shown" in row.limited


def test_a_search_that_is_not_there_says_what_to_type(tmp_path):
    """The command, with its folder."""
    (row,) = rows(tmp_path, ["model"])
    assert isnan(row.value)
    assert f"--out {tmp_path / 'model'}" in row.limited


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"confirmation": {}, "recommended": 3}'])
def test_a_file_of_another_kind_is_refused(tmp_path, text):
    """In one sentence that names it."""
    (tmp_path / "tune.json").write_text(text, "utf-8")
    with pytest.raises(ResultsError, match="not what `ridgefill tune` writes"):
        list(rows(tmp_path.parent, [tmp_path.name]))
