"""``ridgefill tune``: texts and a tiny random model become a recommendation and its test, or one sentence."""

import json
import runpy
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ridgefill import RidgeFillMaps, cli
from ridgefill.models.load import load_any
from ridgefill.tuning import measuring

MATERIAL = runpy.run_path(str(Path(__file__).parents[1] / "end_to_end" / "material.py"))
SMALL = ["--length", "512", "--samples", "4", "--confirm", "5", "--splits", "3,4", "--tails", "32", "--threads", "1"]
FILES = ("candidates.parquet", "tune.json", "front.svg", "front.png")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with ``my-model``, six random layers, and ``texts``, eight files of made-up prose."""
    root = tmp_path_factory.mktemp("tune")
    MATERIAL["write_model"](root / "my-model")
    (root / "texts").mkdir()
    for number in range(8):
        (root / "texts" / f"{number}.txt").write_text(MATERIAL["prose"](number, 1700))
    return root


@pytest.fixture(scope="module")
def tune(place):
    """``tune(out, *words)``: the command on the small setting; returns its exit code."""

    def run(out, *words):
        given = ["--model", str(place / "my-model"), "--texts", str(place / "texts"), "--out", str(place / out)]
        return cli.main(["tune", *given, "--budget", "0.9", *SMALL, *words])

    return run


@pytest.fixture(scope="module")
def done(place, tune):
    """The folder of one finished search."""
    assert tune("out") == 0
    return place / "out"


def rows_of(folder):
    return pq.read_table(folder / "candidates.parquet").to_pylist()


def test_it_recommends_within_the_budget_and_confirms_on_other_data(done):
    """The outcome's settings are those of a finalist that was measured on every sample; held-out items are others."""
    outcome, rows = json.loads((done / "tune.json").read_text()), rows_of(done)
    chosen = outcome["recommended"]
    assert chosen in outcome["finalists"]
    assert chosen["share"] <= 0.9
    assert chosen["samples"] == 4
    items = {stage: {row["prompt_sha256"] for row in rows if row["stage"] == stage and row["suite"] == "ruler"}
             for stage in ("development", "confirmation")}  # fmt: skip
    assert (len(items["development"]), len(items["confirmation"])) == (4, 5)
    assert not items["development"] & items["confirmation"]
    texts = {stage: {row["item"].split(",")[0] for row in rows if row["stage"] == stage and row["suite"] == "documents"}
             for stage in items}  # fmt: skip
    assert texts["development"]
    assert not texts["development"] & texts["confirmation"]
    held = {row["candidate"] for row in rows if row["stage"] == "confirmation"}
    assert held == {"exact", chosen["candidate"]}


def test_both_measures_and_the_verdict_are_said_with_n_and_the_floor(tune, done, capsys):
    """Of a finished search, again, with nothing measured anew; five samples do not allow a margin of three points."""
    assert tune("out") == 0
    said = capsys.readouterr().out
    outcome = json.loads((done / "tune.json").read_text())
    assert outcome["confirmation"]["test"]["n"] == 5
    assert not outcome["confirmation"]["shown"]
    assert "binomial floor -45.1 of n = 5; margin 3" in said
    assert "not shown: n = 5 does not allow it" in said
    assert "99 samples are needed" in said
    assert "key loss" in said
    one = outcome["recommended"]
    assert f"recommended  split {one['split']}, tail {one['tail']}" in said
    assert f"--maps {done}/maps --tail {one['tail']}" in said


def test_the_saved_maps_fit_the_model_and_are_the_recommended_ones(place, done):
    """Split, kind and penalty are those of the outcome."""
    maps = RidgeFillMaps.from_pretrained(done / "maps")
    one = json.loads((done / "tune.json").read_text())["recommended"]
    maps.check(load_any(str(place / "my-model")).adapter)
    assert maps.split == one["split"]
    assert [maps.fit[name] for name in ("towards", "rank", "lam")] == [one[name] for name in ("towards", "rank", "lam")]


def test_an_interrupted_search_carries_on_to_the_same_files(place, tune, done, monkeypatch):
    """Stopped at three places, each time before a file is written; what was finished is not run again."""
    real, calls = measuring.evaluate_samples, []

    def counted(run, samples):
        calls.append(samples[0].index)
        if len(calls) in (2, 5, 11):
            raise KeyboardInterrupt
        return real(run, samples)

    monkeypatch.setattr(measuring, "evaluate_samples", counted)
    for _ in range(3):
        assert tune("stopped") == 130
        assert not (place / "stopped" / "tune.json").exists()
    assert tune("stopped") == 0
    whole = len({(row["stage"], row["item"]) for row in rows_of(done) if row["suite"] == "ruler"})
    assert len(calls) >= 3 + whole
    for name in FILES[:2]:
        assert (place / "stopped" / name).read_bytes() == (done / name).read_bytes().replace(
            f"{done}".encode(), f"{place / 'stopped'}".encode()
        )
    before = len(calls)
    assert tune("stopped") == 0
    assert len(calls) == before
    assert (place / "stopped" / "front.png").read_bytes() == (done / "front.png").read_bytes()


def test_maps_fitted_before_are_searched_at_their_own_splits(place, tune, done, monkeypatch):
    """Nothing is captured; splits are those of the maps."""
    folder = place / "fitted"
    shutil.copytree(done / "maps", folder)
    monkeypatch.setattr("ridgefill.tuning.fitted.capture", None)
    words = [word for word in SMALL if word not in ("--splits", "3,4")]
    given = ["--model", str(place / "my-model"), "--texts", str(place / "texts"), "--out", str(place / "reused")]
    assert cli.main(["tune", *given, "--speedup", "1.1", *words, "--maps", str(folder)]) == 0
    split = RidgeFillMaps.from_pretrained(folder).split
    assert {row["split"] for row in rows_of(place / "reused")} == {None, split}
    assert tune("twice", "--maps", str(folder)) == 2
    again = ["--model", str(place / "my-model"), "--texts", str(place / "texts"), "--out", str(place / "twice")]
    assert cli.main(["tune", *again, "--budget", "0.9", *words, "--maps", str(folder), str(folder)]) == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--budget", "1.5"], "--budget is 1.5; expected a share above 0 and below 1"),
        (["--budget", "nan"], "--budget is nan"),
        (["--budget", "0.2"], "cheapest setting (split 3, tail 32) takes"),
        (["--length", "900"], "give a --length of at most 768"),
        (["--length", "12"], "--length is 12; expected at least 256"),
        (["--samples", "0"], "--samples is 0"),
        (["--splits", "3,9"], "split 9 is outside the model"),
        (["--splits", "three"], "--splits is 'three'"),
        (["--tails", "600"], "tails are 600; expected 1 to 511"),
        (["--seed", "5"], "holds a search with another seed"),
        (["--texts", "nowhere"], "nowhere holds no"),
        (["--model", "nowhere"], "could not be loaded as a model"),
        (["--maps", "nowhere", "--splits", "3"], "nowhere"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_and_changes_nothing(tune, done, capsys, words, sentence):
    """Exit code 2 to 7, no traceback, and the finished search is untouched."""
    before = {path: path.stat().st_mtime_ns for path in done.rglob("*")}
    capsys.readouterr()
    assert 2 <= tune("out", *words) <= 7
    said = capsys.readouterr().err
    assert said.startswith("error: ") or "\nerror: " in said
    assert sentence in said
    assert said.count("\n") <= 2
    assert {path: path.stat().st_mtime_ns for path in done.rglob("*")} == before


def test_a_speedup_below_one_or_beside_a_budget_is_refused(place, capsys):
    """They are two ways of saying one thing."""
    given = ["tune", "--model", str(place / "my-model"), "--out", str(place / "none"), "--speedup", "1"]
    assert cli.main(given) == 2
    assert "--speedup is 1; expected more than 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        cli.main([*given, "--budget", "0.5"])
    assert not (place / "none").exists()


def test_too_few_texts_are_refused_before_a_model_is_loaded(place, tune, tmp_path, capsys):
    """Three files cannot be four roles."""
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(MATERIAL["prose"](number, 200))
    assert tune("few", "--texts", str(tmp_path), "--model", "nowhere") == 5
    assert "3 texts were given" in capsys.readouterr().err
