"""The person the ledger is for: somebody with the published index and the Parquet files, offline."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.branches import create_branch, open_branch
from ledger.cli import main
from ledger.registration import register

CLAIM = Path("workflow/claims/demo.yaml")
SCORES = {
    "ridgefill": [2.0 + 0.01 * item for item in range(30)],
    "identity": [1.0 + 0.02 * item for item in range(30)],
}


@pytest.fixture(params=["main", "local"])
def published(request, project: Path, tmp_path_factory, measured: Callable, capsys) -> tuple[Path, str]:
    """An index with results, made from a project that is then out of reach, and its branch."""
    branch = request.param
    create_branch(project, branch)
    register(project, open_branch(project, branch), CLAIM)
    measured(project, SCORES, branch=branch)
    (project / ("data/results" if branch == "main" else "results") / "demo" / "experiment.json").write_text("{}")
    out = tmp_path_factory.mktemp("reader") / "index"
    assert main(["publish", str(out), "--branch", branch, "--results", "--root", str(project)]) == 0
    shutil.rmtree(project)
    capsys.readouterr()
    return out, branch


def test_every_verdict_can_be_traced_from_the_index_alone(published, capsys) -> None:
    """Registered when, run when, from which bytes, measured in which file, decided how, and what was never run."""
    out, branch = published
    assert main(["verdicts", "--root", str(out)]) == 0
    said = capsys.readouterr().out
    entries = open_branch(out, branch).entries()
    for entry in entries[1:]:
        assert f"#{entry.seq}" in said
        assert entry.time in said
    for item in (entries[1].body or {})["configs"]:
        assert f"{item['sha256']}  {item['path']}" in said
        assert (out / item["path"]).is_file()
    assert f"measured    {(entries[3].body or {})['outputs'][0]['sha256']}  scores.parquet" in said
    assert "order shown: T2" in said
    assert "SUPPORTED" in said
    assert "met with" in said
    assert "never started: capture" in said


def test_the_same_is_there_for_programs(published, capsys) -> None:
    """``--json`` holds the verdict with its value, its rule and the number of items."""
    out, branch = published
    assert main(["verdicts", "--root", str(out), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    (found,) = report["branches"][0]["verdicts"]
    (verdict,) = found["verdicts"]
    assert (verdict["verdict"], verdict["values"][0]["n"]) == ("supported", 30)
    assert found["registered"]["branch"] == branch
    assert found["measured_by"] == "table"


def test_a_changed_number_is_seen_in_the_index(published, capsys) -> None:
    """The reader's copy is checked byte by byte, so a verdict cannot be carried by another table."""
    out, branch = published
    scores = out / ("data/results" if branch == "main" else "results") / "demo" / "scores.parquet"
    data = bytearray(scores.read_bytes())
    data[len(data) // 2] ^= 1
    scores.write_bytes(data)
    assert main(["verdicts", "--root", str(out)]) == 5
    assert "output_changed" in capsys.readouterr().out


def test_what_lies_beside_the_results_is_published_too(published) -> None:
    """Settings that a provider of measures reads next to the tables are in the index."""
    out, branch = published
    folder = out / ("data/results" if branch == "main" else "results") / "demo"
    assert (folder / "experiment.json").read_text() == "{}"
