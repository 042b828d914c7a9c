"""The command: trains, resumes, measures, and refuses in a sentence."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

from ridgefill.hybrid.settings import FOLDER
from ridgefill.models.load import load_any
from workflow.jobs import hybrid as job

TOY = runpy.run_path(str(Path(__file__).with_name("toy.py")))["toy"]()


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command in a folder with the toy's settings; its exit code and what it said."""
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "toy.yaml").write_text(TOY.model_dump_json())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(job, "SHOWN", 5)
    threads = torch.get_num_threads()

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["hybrid", "--out", "models/toy", *arguments])
        code = job.main()
        return code, capsys.readouterr().err

    yield command
    torch.set_num_threads(threads)


def test_it_trains_measures_and_can_measure_again(run, monkeypatch):
    """A folder with weights and record; trained once only; the same table for the folder that is there."""
    code, said = run("--name", "toy", "--prompts", "1")
    assert code == 0
    folder = Path("models/toy")
    record = json.loads((folder / "training.json").read_text())
    assert record["steps"] == TOY.steps
    assert {row["gone"] for row in record["right"]} > {"nothing", "late attention", "late states", "everything"}
    assert len(Path("models/.training/toy.log").read_text().splitlines()) == TOY.steps // 5
    before = (folder / "model.safetensors").read_bytes()

    def never(*arguments):
        raise AssertionError("trained again")

    monkeypatch.setattr("ridgefill.hybrid.training.one_step", never)
    assert run("--name", "toy", "--prompts", "1")[0] == 0
    assert (folder / "model.safetensors").read_bytes() == before
    code, again = run("--name", "toy", "--prompts", "1", "--measure")
    table = [line for line in said.splitlines() if line.startswith("|")]
    assert code == 0
    assert table == [line for line in again.splitlines() if line.startswith("|")]
    assert len(table) == 2 + len(record["right"]) // 3
    assert load_any(str(folder)).adapter.layers == TOY.network.layers


def test_it_refuses_in_a_sentence(run):
    """An unknown name, and nothing to measure."""
    code, said = run("--name", "other")
    assert (code, said) == (2, "error: unknown hybrid 'other'; known: toy\n")
    code, said = run("--name", "toy", "--measure")
    assert code == 3
    assert "models/toy holds no hybrid" in said
    assert said.count("\n") == 1
