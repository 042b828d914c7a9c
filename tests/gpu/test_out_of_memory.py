"""Work that does not fit in memory is done in halves, in the same order, and the run's files say so."""

import argparse
import json
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from ridgefill.evaluation.parts import Parts
from workflow.jobs.common import run_job
from workflow.jobs.memory import NOTES, halving, notes_of
from workflow.jobs.shards import Item, Suite, fewer_arms, items_of
from workflow.jobs.shards import _finished as finished


@pytest.fixture(autouse=True)
def _no_collecting(monkeypatch):
    """A process full of other tests' objects takes half a second to collect them, at every halving."""
    monkeypatch.setattr("ridgefill.devices.gc", SimpleNamespace(collect=lambda: 0))


def full():
    raise torch.OutOfMemoryError("CUDA out of memory")


def rows_of(units, most, seen):
    seen.append(len(units))
    if len(units) > most:
        full()
    return {"rows": [{"unit": one} for one in units], "timings": [{"unit": one} for one in units]}


def test_what_fits_is_not_touched():
    made = halving(lambda units: rows_of(units, 8, []), range(8), "prompts")
    assert NOTES not in made


@pytest.mark.parametrize("most", [1, 2, 3, 7])
def test_halves_are_joined_in_order(most):
    seen = []
    made = halving(lambda units: rows_of(units, most, seen), list(range(8)), "prompts")
    assert made["rows"] == [{"unit": one} for one in range(8)] == made["timings"]
    assert seen[0] == 8
    assert sum(one for one in seen if one <= most) == 8
    assert made[NOTES][0] == "8 prompts did not fit in memory together and were done as 4 and 4"
    assert len(made[NOTES]) == len(seen) - sum(one <= most for one in seen)


def test_one_that_does_not_fit_alone_is_the_errors_own():
    with pytest.raises(torch.OutOfMemoryError):
        halving(lambda units: rows_of(units, 0, []), [1, 2], "prompts")


def test_another_error_is_not_swallowed():
    with pytest.raises(RuntimeError, match="shape"):
        halving(lambda units: (_ for _ in ()).throw(RuntimeError("shape")), [1, 2], "prompts")


@dataclass(frozen=True)
class Run:
    arms: tuple


def test_arms_are_halved_where_one_prompt_is_too_much():
    made = fewer_arms(lambda run: rows_of(run.arms, 1, []), Run(("exact", "identity", "ridgefill")), "niah-1024-0")
    assert [row["unit"] for row in made["rows"]] == ["exact", "identity", "ridgefill"]
    assert made[NOTES][0].startswith("3 arms on niah-1024-0")


def test_every_item_of_a_suite_is_made_with_fewer_arms_where_memory_runs_out():
    """First fewer prompts, where a suite has several together, then half of the arms with those prompts."""
    prompts = [0, 1]

    def make(run):
        return halving(
            lambda some: rows_of([(one, arm) for one in some for arm in run.arms], 1, []), prompts, "prompts"
        )

    (item,) = items_of("niah-1024-0", make, [Run(("exact", "identity"))])
    made = item.make()
    assert [row["unit"] for row in made["rows"]] == [(0, "exact"), (1, "exact"), (0, "identity"), (1, "identity")]
    assert made[NOTES][0] == "2 arms on niah-1024-0 did not fit in memory together and were done as 1 and 1"


def test_the_note_outlives_an_interruption(tmp_path):
    suite = Suite("ruler", "samples", {"rows": "a", "timings": "b"}, {}, lambda job: None)
    parts = Parts(tmp_path, "fingerprint")

    def items(most):
        return [
            Item("first", partial(halving, lambda units: rows_of(units, most, []), [0, 1], "prompts")),
            Item("second", lambda: rows_of([2], 9, [])),
        ]

    with pytest.raises(torch.OutOfMemoryError):
        list(finished(suite, parts, [items(1)[0], replace(items(1)[1], make=full)], "ruler"))
    # Run again, on a larger device: the item that was finished in halves is not made again, and is still known as such.
    again = list(finished(suite, parts, items(9), "ruler"))
    assert list(notes_of(again)) == ["2 prompts did not fit in memory together and were done as 1 and 1"]
    assert [row["unit"] for one in again for row in one["rows"]] == [0, 1, 2]
    assert NOTES in json.loads((tmp_path / "first.json").read_text())["payload"]
    assert NOTES not in json.loads((tmp_path / "second.json").read_text())["payload"]


def test_a_job_that_does_not_fit_at_all_ends_with_one_sentence(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["job", "--log", str(tmp_path / "job.log")])
    command = argparse.ArgumentParser()
    command.add_argument("--log", type=type(tmp_path))
    assert run_job(lambda arguments: full(), command) == 9
    said = capsys.readouterr().err
    assert said.startswith("error: out of memory;")
    assert said.count("\n") == 1
