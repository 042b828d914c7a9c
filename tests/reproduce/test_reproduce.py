"""The published numbers again: equal where nothing was touched, and named where something was."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ridgefill.results import read_json
from workflow.reproduce.__main__ import main
from workflow.reproduce.claims import claims_found
from workflow.reproduce.evidence import gather
from workflow.reproduce.run import reproduce

from .conftest import ROOT, copied, flip

NAME = "gemma3_270m_split11"
QUICK = "smollm2_lengths"


def reproduced(project: Path, capsys: pytest.CaptureFixture[str], only: str = QUICK) -> tuple[int, str]:
    """Exit code and output of the command in a project, for one experiment; the claims are always all checked."""
    here = Path.cwd()
    os.chdir(project)
    try:
        code = main(["--only", only, "--jobs", "1"])
    finally:
        os.chdir(here)
    done = capsys.readouterr()
    return code, done.out + done.err


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_checkouts_rebuild_the_same_bytes(tmp_path):
    """Tables, figures, report, cells and claims, in folders of different names; every published number among them."""
    found = {}
    for name in ("one", "two words"):
        root = copied(tmp_path / name)
        outcome = reproduce(root, root / "out", 1, lambda line: None, [NAME])
        assert outcome.problems == ()
        found[name] = files(root / "out")
    assert found["one"].keys() == found["two words"].keys()
    assert {f"{NAME}/tables/main.csv", f"{NAME}/figures/cost.svg", f"{NAME}/figures/cost.png", "claims.md"} < set(
        found["one"]
    )
    assert [name for name, data in found["one"].items() if found["two words"][name] != data] == []
    (rebuilt,) = outcome.experiments
    published = read_json(ROOT / "data/results" / NAME / "cells.json")
    assert rebuilt.cells is not None
    assert rebuilt.cells.equal + rebuilt.cells.close == len(published["cells"])
    # Published tables have the published bytes; newer ones are named.
    for path in (ROOT / "data/results" / NAME / "tables").iterdir():
        assert found["one"][f"{NAME}/tables/{path.name}"] == path.read_bytes()
    assert set(rebuilt.cells.new_tables) <= {Path(name).stem for name in found["one"]}


def test_every_verdict_is_decided_as_published():
    """All claims, in the order of registration, without rendering anything."""
    claims = claims_found(gather(ROOT))
    assert [claim.seq for claim in claims] == sorted(claim.seq for claim in claims)
    predictions = [each for claim in claims for each in claim.predictions]
    assert len(predictions) == sum(len(read_json(path)) for path in (ROOT / "data/results").glob("*/verdicts.json"))
    assert [each for each in predictions if each.verdict != each.published] == []
    # A margin is on the side of its outcome: what is met is not below zero, what is not met is not above.
    for condition in (condition for each in predictions for condition in each.conditions):
        assert condition.margin is not None
        assert {"supported": condition.margin >= 0, "refuted": condition.margin <= 0}.get(condition.outcome, True)


@pytest.mark.parametrize("file", ["ruler/samples.parquet", "documents/tokens.parquet"])
def test_a_flipped_byte_of_a_results_file_is_named(project, capsys, file):
    """The experiment is not rebuilt from it, and its predictions are not decided by it."""
    path = project / "data/results" / NAME / file
    flip(path, path.stat().st_size // 2)
    code, said = reproduced(project, capsys, NAME)
    assert code == 1
    assert f"PROBLEM data/results/{NAME}/{file} has SHA-256" in said
    assert f"PROBLEM {NAME}: P1 is undecided, published was supported" in said
    assert said.splitlines()[-1].startswith("NOT REPRODUCED")
    assert not (project / "results/reproduced" / NAME).exists()


@pytest.mark.parametrize("part", ["entries", "bodies"])
def test_a_flipped_byte_of_the_ledger_is_named(project, capsys, part):
    """The entry, by its number; nothing that rests on the ledger is said to be reproduced."""
    path = project / f"data/ledger/main/{part}/00000017.json"
    flip(path, path.stat().st_size - 9)
    code, said = reproduced(project, capsys)
    assert code == 1
    assert [line for line in said.splitlines() if line.startswith("PROBLEM") and "#17" in line]
    assert "0 predictions (none decided); ledger NOT verified" in said


def test_a_changed_number_is_named_wherever_it_stands(project, capsys):
    """In cells.json with its distance from the rebuilt one; in a table by the second code path, which reads it."""
    folder = project / "data/results" / NAME
    document = json.loads((folder / "cells.json").read_text())
    document["cells"]["main.ridgefill.ruler_filled"]["value"] += 0.25
    (folder / "cells.json").write_text(json.dumps(document))
    table = folder / "tables/contrasts.md"
    table.write_text(table.read_text().replace("27.4", "27.5", 1))
    code, said = reproduced(project, capsys, NAME)
    assert code == 1
    assert (
        f"PROBLEM {NAME}: main.ridgefill.ruler_filled: value published 71.6785714286, rebuilt 71.4285714286, 0.25 apart"
        in said
    )
    assert f"PROBLEM {NAME}, published: tables/contrasts.md: contrasts." in said


@pytest.mark.parametrize("name", ["experiment.json", "claim.yaml", "provenance.json"])
def test_a_file_beside_the_tables_cannot_be_another(project, capsys, name):
    """Settings by the hash in every Parquet file, the claim and the registration by the ledger; also when gone."""
    path = project / "data/results" / NAME / name
    text = path.read_text()
    changed = {"experiment.json": ('"tail": 128', '"tail": 64'), "provenance.json": ('"leaf": "', '"leaf": "0')}
    path.write_text(text.replace(*changed.get(name, ("a", "e")), 1))
    code, said = reproduced(project, capsys, NAME)
    assert code == 1
    assert f"PROBLEM data/results/{NAME}/{name} " in said
    path.unlink()
    assert f"PROBLEM data/results/{NAME}/{name} is missing" in reproduced(project, capsys, NAME)[1]


def test_a_published_verdict_that_its_rule_does_not_give_is_named(project, capsys):
    """Which prediction, what it is, and what was published."""
    path = project / "data/results" / NAME / "verdicts.json"
    path.write_text(path.read_text().replace('"verdict": "refuted"', '"verdict": "supported"', 1))
    code, said = reproduced(project, capsys)
    assert code == 1
    assert f"PROBLEM {NAME}: P5 is refuted, published was supported" in said


def test_results_that_nobody_registered_are_named(project, capsys):
    """A folder that no entry names is no result."""
    (project / "data/results/invented/ruler").mkdir(parents=True)
    (project / "data/results/invented/ruler/samples.parquet").write_bytes(b"PAR1")
    code, said = reproduced(project, capsys, "invented")
    assert code == 1
    assert "data/results/invented: no entry of the published ledger names its files" in said


def test_a_stored_score_that_the_answer_does_not_earn_is_seen(project):
    """Scores of a run without a report are earned again from its answers."""
    from workflow.reproduce.samples import samples_only

    from .conftest import edit, set_value

    path = project / "data/results" / QUICK / "ruler/samples.parquet"
    edit(path, set_value("score", lambda score: 0.125, lambda row: row["score"] == 1.0))
    rows, wrong = samples_only(path.parents[1], project / "out")
    assert rows == 36
    assert len(wrong) == 1
    assert "stores score 0.125, earned is 1.0" in wrong[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "nothing"], "expected one with published results: smollm2_lengths"),
        (["--only", QUICK, "--out", "data/results"], "published data"),
        (["--only", QUICK, "--out", "workflow"], "not rebuilt here"),
        (["--full", "nothing"], "expected one with published results that the workflow can run"),
    ],
)
def test_bad_arguments_are_refused_in_a_sentence(project, capsys, monkeypatch, arguments, words):
    """Before anything is removed or written."""
    monkeypatch.chdir(project)
    before = files(project)
    assert main(arguments) == 2
    assert words in capsys.readouterr().err
    assert files(project) == before
