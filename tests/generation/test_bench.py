"""``ridgefill bench`` on a tiny model: rows of prefill, a table for people and one line of JSON last."""

import json

import pytest

from ridgefill.bench import families
from ridgefill.bench.prefill import PrefillSettings, rows
from ridgefill.cli import main
from ridgefill.commands.bench import NAMES
from ridgefill.cost import ceiling, exact_macs, fill_macs, geometry_of
from ridgefill.models.sizes import sizes_of
from ridgefill.pretrained import RidgeFillMaps

SMALL = {"lengths": (64,), "rows_length": 64, "off_length": 32, "memory_length": 64, "tail": 16, "repeats": 1}


@pytest.fixture
def settings(saved):
    """``settings(**changes)``: a tiny model's."""
    return lambda **changes: PrefillSettings(saved[0], saved[1], **{**SMALL, **changes})


def test_the_command_lists_the_families_that_there_are():
    """The names are written twice, as listing them must not load PyTorch."""
    assert tuple(families.FAMILIES) == NAMES


def test_speed_is_held_against_the_ceiling_of_the_cost_model(settings, saved, model_of):
    """In both types; the reference is what skipping multiply-accumulates alone could give."""
    geometry = geometry_of(sizes_of(model_of().config), "llama")
    split = RidgeFillMaps.from_pretrained(saved[1]).split
    filled = fill_macs(geometry, tokens=64, split=split, tail=16, mapped_split_layer=False)
    found = list(rows(settings(only=("ttft",))))
    assert [row.name for row in found] == ["ttft_float32_64", "ttft_bfloat16_64"]
    for row in found:
        assert row.reference == row.target == ceiling(filled / exact_macs(geometry, 64)) > 1
        assert row.low <= row.value <= row.high


def test_exact_rows_lower_the_ceiling(settings):
    """More exact rows, less to gain; a target is nine tenths of it."""
    plain = next(rows(settings(only=("ttft",), dtypes=("float32",))))
    scattered, attended = rows(settings(only=("rows",), dtypes=("float32",)))
    assert scattered.reference < plain.reference
    assert scattered.target == pytest.approx(0.9 * scattered.reference)
    assert not attended.met
    assert "no layer below split 3" in attended.limited


def test_fill_off_and_memory_have_a_value(settings):
    """Fill off has one only where our pass equals the stock forward bit for bit."""
    off, memory = rows(settings(only=("off", "memory"), dtypes=("float32",)))
    assert off.value > 0
    assert 0 < memory.value < 3


def test_fill_off_has_no_value_when_the_logits_differ(settings, monkeypatch):
    """A faster pass that computes something else has won nothing."""
    from ridgefill.bench import prefill

    monkeypatch.setattr(prefill.torch, "equal", lambda *_: False)
    (row,) = rows(settings(only=("off",), dtypes=("float32",)))
    assert "differ" in row.limited
    assert not row.met


def test_a_model_that_is_not_there_leaves_a_row_that_says_so(settings, tmp_path):
    """With what to do."""
    (row,) = rows(PrefillSettings(tmp_path / "none", tmp_path))
    assert "build the demo first" in row.limited


def test_the_last_line_is_json_and_the_table_says_the_same(saved, capsys):
    """A row of a family that needs no model and one of a missing model."""
    words = ["bench", "--only", "recompute", "--model", "nowhere", "--results", "nowhere", "--repeats", "1"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert json.loads(out.splitlines()[-1]) == {
        "rows": [{"name": "recompute", "value": None, "reference": 10.0, "target": 10.0, "met": False}]
    }
    assert "0 of 1 targets met" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--repeats", "0"], "expected 1 or more"),
        (["--only", "ttft", "--lengths", "100"], "no longer than the tail"),
        (["--only", "ttft", "--device", "cuda"], "PyTorch finds no CUDA device"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_a_sentence(saved, capsys, words, said):
    """No traceback, and nothing is measured."""
    assert main(["bench", "--model", str(saved[0]), "--maps", str(saved[1]), *words]) != 0
    assert said in capsys.readouterr().err
