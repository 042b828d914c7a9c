"""Engines that answer, stop, talk nonsense or are missing, played by a small script; and the rows that follow."""

import json
import os
import sys
from math import isnan
from pathlib import Path

import pytest

from ridgefill.bench import engines
from ridgefill.bench.engines import Engine, EngineError, serving
from ridgefill.bench.rivals import EXACT, INSIDE, OURS, Request, llama, rows, vllm
from ridgefill.bench.short_requests import rows as short_rows

REQUEST = Request(threads=2, context=64, vocabulary=500)
STANDIN = '''
"""Plays an engine: says what its settings tell it to, line by line, and notes what it was asked."""
import json, os, sys

settings = json.loads(sys.argv[2])
print(settings.get("first", json.dumps({"ready": {"engine": sys.argv[1]}})), flush=True)
replies = iter(settings["replies"])
for line in sys.stdin:
    with open(settings["heard"], "a") as heard:
        heard.write(json.dumps([sys.argv[1], json.loads(line)["ids"]]) + "\\n")
    reply = next(replies)
    if reply == "crash":
        print("out of memory\\n", file=sys.stderr)
        sys.exit(3)
    if reply != "silence":
        print(reply if isinstance(reply, str) else json.dumps({"seconds": reply, "token": 1}), flush=True)
'''


@pytest.fixture
def heard(tmp_path):
    return tmp_path / "heard"


@pytest.fixture
def engine(tmp_path, heard):
    """An engine by name and replies; a number stands for a good reply with that many seconds."""
    script = tmp_path / "standin.py"
    script.write_text(STANDIN, "utf-8")

    def make(name, replies, **more):
        settings = {"replies": replies, "heard": str(heard), **more}
        return Engine(name, Path(sys.executable), name, f"make {name}", settings, serve=script)

    return make


class Ours:
    """A side of ours that takes scripted seconds: it moves the clock by them, and notes prompts where engines do."""

    def __init__(self, name, heard, seconds, time):
        self._name, self._heard, self._seconds, self._time = name, heard, iter(seconds), time

    def __call__(self, ids):
        with open(self._heard, "a") as heard:
            heard.write(json.dumps([self._name, ids]) + "\n")
        self._time[0] += next(self._seconds)


@pytest.fixture
def table(heard):
    """Rows for engines beside our two sides, whose seconds are scripted."""

    def make(some, filled, exact, lengths=(40,), repeats=2):
        time = [0.0]
        sides = [Ours(OURS, heard, filled, time), Ours(EXACT, heard, exact, time)]
        return list(rows(*sides, some, REQUEST, lambda: time[0], lengths, repeats))

    return make


def asked(heard):
    return [tuple(json.loads(line)) for line in heard.read_text().splitlines()]


def test_the_value_is_the_better_engines_seconds_over_ours_without_the_first_round(engine, table):
    """Medians choose the engine; the ratio is taken round by round, and its range is kept."""
    some = [engine("slow", [1.0, 9.0, 9.0, 9.0]), engine("quick", [99.0, 6.0, 8.0, 3.0])]
    (row,) = table(some, [50.0, 2.0, 4.0, 2.0], [50.0, 7.0, 7.0, 7.0], repeats=3)
    assert (row.value, row.low, row.high, row.reference) == (2.0, 1.5, 3.0, 1.0)
    assert row.limited == (f"quick is the better engine; {OURS} 2.00 s, quick 6.00 s, {EXACT} 7.00 s, slow 9.00 s")
    assert "engine quick" in row.what


def test_every_request_has_a_prompt_of_its_own_and_the_order_turns(engine, table, heard):
    """Of the length asked for, of ids in the vocabulary; each side comes first in one of four rounds."""
    table([engine("a", [1.0] * 8), engine("b", [1.0] * 8)], [1.0] * 8, [1.0] * 8, lengths=(40, 50), repeats=3)
    calls = asked(heard)
    assert len({tuple(ids) for _, ids in calls}) == len(calls) == 32
    assert [len(ids) for _, ids in calls] == [40] * 16 + [50] * 16
    assert all(0 <= one < REQUEST.vocabulary for _, ids in calls for one in ids)
    rounds = [[name for name, _ in calls[place : place + 4]] for place in range(0, 16, 4)]
    assert {names[0] for names in rounds} == {OURS, EXACT, "a", "b"}
    assert all(sorted(names) == sorted(rounds[0]) for names in rounds)


def test_targets_stand_in_the_rows(engine, table):
    """1.2 at 4,096 tokens and 1.35 at 8,192."""
    made = table([engine("a", [1.25, 1.25] * 2)], [1.0] * 4, [1.0] * 4, lengths=(4096, 8192), repeats=1)
    assert [(row.name, row.target, row.met) for row in made] == [
        ("ttft_engines_4096", 1.2, True),
        ("ttft_engines_8192", 1.35, False),
    ]


def test_ours_inside_an_engine_has_a_row_of_its_own(engine, table):
    """Held against the better engine that is not ours."""
    some = [engine("slow", [9.0] * 2), engine("quick", [6.0] * 2), engine(INSIDE, [2.0] * 2)]
    beside, inside = table(some, [4.0] * 2, [7.0] * 2, lengths=(4096,), repeats=1)
    assert (beside.name, beside.value, inside.name, inside.value) == (
        "ttft_engines_4096",
        1.5,
        "ttft_in_vllm_4096",
        3.0,
    )
    assert inside.target == beside.target == 1.2
    assert inside.limited.startswith("quick is the better engine; ")


def test_ours_inside_an_engine_may_be_missing_without_harm_to_the_other_row(engine, table):
    """And a missing rival leaves both without a value."""
    beside, inside = table(
        [engine("quick", [6.0] * 2), engine(INSIDE, [], first="no")], [4.0] * 2, [7.0] * 2, repeats=1
    )
    assert beside.value == 1.5
    assert isnan(inside.value)
    assert inside.limited.startswith(f"{INSIDE} ")
    both = table([engine("quick", [], first="no"), engine(INSIDE, [2.0] * 2)], [4.0] * 2, [7.0] * 2, repeats=1)
    assert all(isnan(row.value) for row in both)


def test_the_plugin_is_told_of_maps_in_one_engine_and_not_in_the_other(tmp_path):
    """A setting of the user's own reaches neither."""
    stock, filled = (vllm(tmp_path, tmp_path, REQUEST, maps=maps) for maps in (None, tmp_path / "maps"))
    assert stock.environment["RIDGEFILL_VLLM"] == ""
    assert json.loads(filled.environment["RIDGEFILL_VLLM"]) == {"maps": str(tmp_path / "maps"), "tail": 512}
    assert (stock.name, filled.name) == ("vLLM", INSIDE)


NONSENSE = {
    "no JSON": "hello",
    "no object": "[1]",
    "another object": '{"token": 5}',
    "no number": '{"seconds": "fast"}',
    "true": '{"seconds": true}',
    "zero": '{"seconds": 0}',
    "negative": '{"seconds": -1.5}',
    "NaN": '{"seconds": NaN}',
    "infinite": '{"seconds": Infinity}',
}


@pytest.mark.parametrize("reply", NONSENSE.values(), ids=NONSENSE)
def test_an_engine_that_answers_nonsense_gives_no_value(engine, table, reply):
    """One sentence says what it answered; the others' seconds are still told."""
    (row,) = table([engine("odd", [1.0, reply]), engine("good", [3.0] * 3)], [1.0] * 3, [2.0] * 3)
    assert isnan(row.value)
    assert not row.met
    assert row.limited.startswith("odd answered ")
    assert row.limited.endswith(f". Taken: {OURS} 1.00 s, {EXACT} 2.00 s, good 3.00 s")


def test_an_engine_that_stops_gives_no_value_then_and_later(engine, table, heard):
    """Its exit status and last line are told, and nobody asks it again."""
    some = [engine("weak", [1.0, "crash"]), engine("good", [3.0] * 6)]
    made = table(some, [1.0] * 6, [2.0] * 6, lengths=(40, 50))
    assert all(isnan(row.value) for row in made)
    assert "weak stopped with exit status 3 (out of memory)" in made[0].limited
    assert made[1].limited == made[0].limited
    assert [name for name, _ in asked(heard)].count("weak") == 2


def test_an_engines_own_error_is_told(engine, table):
    """As it was said, on one line."""
    (row,) = table([engine("sad", ['{"error": "ValueError: prompt\\nis too long"}'])], [1.0] * 3, [1.0] * 3)
    assert row.limited.startswith("sad could not go on: ValueError: prompt is too long. Taken: ")


@pytest.mark.parametrize("first", ["no", '{"ready": 5}', '{"error": "no such model"}'])
def test_an_engine_that_does_not_load_gives_no_value(engine, table, first):
    """It is never asked, and the others are."""
    (row,) = table([engine("odd", [], first=first), engine("good", [3.0] * 3)], [1.0] * 3, [2.0] * 3)
    assert isnan(row.value)
    assert row.limited.startswith("odd ")
    assert "good 3.00 s" in row.limited


def test_a_missing_environment_is_told_with_the_command_that_makes_it(tmp_path, table):
    """For both engines, from a checkout that has neither."""
    model = tmp_path / "model"
    some = [vllm(tmp_path, model, REQUEST), llama(tmp_path, tmp_path / "model.gguf", REQUEST)]
    (row,) = table(some, [1.0] * 3, [2.0] * 3)
    assert isnan(row.value)
    assert (
        f"vLLM is not installed (looked for {tmp_path / '.venv-vllm'}/bin/python); make vllm-setup installs it"
        in row.limited
    )
    assert "make llama installs it" in row.limited


def test_a_missing_model_is_told_by_its_path(engine, tmp_path):
    """Before the engine is started."""
    whole = engine("a", [])
    missing = tmp_path / "absent.gguf"
    with (
        pytest.raises(EngineError, match=r"absent\.gguf"),
        serving(Engine(**{**vars(whole), "files": [missing]})),
    ):
        pytest.fail("it was started")


def test_an_engine_that_does_not_answer_is_given_up(engine, monkeypatch):
    """After the limit; leaving the context ends its process."""
    monkeypatch.setattr(engines, "REQUEST_SECONDS", 0.05)
    with serving(engine("quiet", ["silence"])) as one, pytest.raises(EngineError, match="quiet gave no answer"):
        one.ask([1, 2])


def test_every_failure_after_the_first_is_told_at_once(engine):
    """A stopped engine that is asked again does not make anybody wait."""
    with serving(engine("weak", ["crash"])) as one:
        for _ in range(2):
            with pytest.raises(EngineError, match="weak stopped with exit status 3"):
                one.ask([1])


DRIVER = """
import os, sys

def load(settings):
    print("noise while loading")
    os.system("echo noise of a child")
    def first_token(ids):
        print("noise while answering")
        if len(ids) > 3:
            raise ValueError("too long")
        return sum(ids)
    return {"engine": settings["name"]}, first_token
"""


def test_a_driver_serves_whatever_its_engine_prints(tmp_path):
    """Output is replies alone; an exception is the last of them."""
    (tmp_path / "noisy.py").write_text(DRIVER, "utf-8")
    engine = Engine("noisy", Path(sys.executable), "noisy", "make noisy", {"name": "n"}, {"PYTHONPATH": str(tmp_path)})
    with serving(engine) as one:
        assert one.ready == {"engine": "n"}
        assert one.ask([1, 2, 3]) > 0
        with pytest.raises(EngineError, match="noisy could not go on: ValueError: too long"):
            one.ask([1, 2, 3, 4])


def test_leaving_the_context_ends_the_process(engine, heard):
    """A process that has ended cannot be signalled."""
    with serving(engine("a", [1.0])) as one:
        pid = one.ask.__self__._process.pid
        os.kill(pid, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_short_requests_are_asked_of_one_engine_both_ways_in_turn(engine, heard):
    """Ours over stock, pair by pair, without the first five; who is first turns, and both get the same prompt."""
    replies = [9.0, 1.0] * 5 + [2.0, 1.0, 4.0, 2.0, 2.0, 3.0]  # ours is second in every other pair
    (row,) = short_rows(engine("plugin", replies), 500, 3)
    assert (row.low, row.value, row.high) == (0.5, 1.5, 2.0)
    assert not row.met
    calls = [ids for _, ids in asked(heard)]
    assert [ids[0] for ids in calls[:6]] == [1, 0, 0, 1, 1, 0]
    assert all(one[1:] == other[1:] for one, other in zip(calls[::2], calls[1::2], strict=True))
    assert len({tuple(ids[1:]) for ids in calls}) == 8


def test_without_the_engine_short_requests_have_no_value_and_a_reason(engine):
    """What it said."""
    (row,) = short_rows(engine("plugin", ["crash"]), 500, 1)
    assert isnan(row.value)
    assert "plugin stopped with exit status 3 (out of memory)" in row.limited
