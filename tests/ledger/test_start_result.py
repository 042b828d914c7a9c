"""``ledger start`` and ``ledger result``: runs made elsewhere, and starts that somebody has to close."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ledger.branches import create_branch, open_for_writing
from ledger.cli import main
from ledger.lease import holder_of, lease
from ledger.orphans import open_starts, orphan_lines, orphans
from ledger.registration import register
from ledger.seeds import run_seed
from ledger.store import Ledger
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")


@pytest.fixture
def registered(project: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The project's local ledger with its claim registered; commands are typed in its folder."""
    monkeypatch.chdir(project)
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    return ledger


def test_a_start_prints_its_seed_and_what_closes_it(registered: Ledger, capsys) -> None:
    """One entry, no result, no lease; as JSON the seed is text, since it has 63 bits."""
    assert main(["start", "demo/ruler", "--label", "far away", "--set", "dtype=bfloat16"]) == 0
    seed = str(run_seed(registered.entries()[1].leaf, "ruler/far away"))
    said = capsys.readouterr().out
    for part in ("start #2 of branch local", seed, "ledger result 2 --ok --output", "ledger result 2 --failed"):
        assert part in said
    assert main(["start", "capture", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    start = registered.entries()[3]
    assert printed == {
        "branch": "local",
        "seq": 3,
        "leaf": start.leaf,
        "seed": (start.body or {})["seed"],
        "experiment": "demo",
        "run": "capture",
        "label": "",
    }
    assert [entry.kind for entry in registered.entries()[2:]] == ["start", "start"]


def test_a_result_closes_a_start_with_the_named_outputs(project: Path, registered: Ledger, capsys) -> None:
    """Ok, with hashes; the ledger verifies; files that no pattern names are no outputs."""
    main(["start", "ruler"])
    folder = project / "results/demo/ruler"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"abc")
    (folder / "notes.txt").write_bytes(b"n")
    assert main(["result", "2", "--ok", "--output", "ruler/*.parquet"]) == 0
    body = registered.entries()[3].body or {}
    digest = hashlib.sha256(b"abc").hexdigest()
    wanted = {"path": "ruler/a.parquet", "sha256": digest, "bytes": 3, "published": False}
    assert (body["status"], body["message"], body["outputs"]) == ("ok", "", [wanted])
    assert body["start"] == {"seq": 2, "leaf": registered.entries()[2].leaf}
    assert "result #3 of branch local: start #2 ok, 1 output" in capsys.readouterr().out
    (folder / "a.parquet").unlink()
    assert verify(project).ok


@pytest.mark.parametrize(
    ("words", "exit_code", "says"),
    [
        (["1", "--ok"], 2, "#1 of branch local is a register entry, expected a start"),
        (["9", "--ok"], 2, "#9 of branch local does not exist"),
        (["-1", "--ok"], 2, "#-1 of branch local does not exist"),
        (["3", "--ok"], 2, "start #3 of branch local has its result #4 already"),
        (["2", "--failed", " "], 2, "found no reason"),
        (["2", "--ok", "--output", "*.csv"], 2, "'*.csv' matches no file in the results folder; nothing was recorded"),
        (["2", "--ok", "--output", "../*"], 2, "found the output pattern '../*'"),
        (["2", "--ok", "--branch", "absent"], 12, "there is no ledger branch 'absent'"),
    ],
)
def test_a_result_that_cannot_be_appends_nothing(
    registered: Ledger, capsys, words: list[str], exit_code: int, says: str
) -> None:
    """No start, one that is closed, no reason, no outputs."""
    main(["start", "capture"])
    main(["start", "ruler"])
    main(["result", "3", "--failed", "the first try"])
    assert main(["result", *words]) == exit_code
    assert says in capsys.readouterr().err
    assert len(registered.entries()) == 5


def test_a_result_needs_to_say_how_it_ended(registered: Ledger, capsys) -> None:
    """One of --ok and --failed, not both."""
    for words in ([], ["--ok", "--failed", "x"]):
        with pytest.raises(SystemExit) as stopped:
            main(["result", "2", *words])
        assert stopped.value.code == 2
    assert "--failed" in capsys.readouterr().err


def test_a_run_at_work_is_not_closed_from_outside(project: Path, registered: Ledger, capsys) -> None:
    """While its lease is held the answer is busy; afterwards the start can be closed."""
    main(["start", "ruler"])
    with lease(project, "demo", "ruler", ""):
        assert main(["result", "2", "--failed", "gone"]) == 10
    assert len(registered.entries()) == 3
    assert main(["result", "2", "--failed", "gone"]) == 0


def test_orphans_are_the_open_starts_nobody_works_on(project: Path, registered: Ledger) -> None:
    """A lease that is held for another start of the same run does not hide an orphan."""
    assert orphans(project, "absent") == ()
    main(["start", "ruler"])
    main(["start", "ruler"])
    older, newer = registered.entries()[2:]
    assert orphans(project, "local") == (older, newer)
    with lease(project, "demo", "ruler", "") as held:
        assert orphans(project, "local") == ()
        held.describe(newer.leaf)
        assert orphans(project, "local") == (older,)
        open_ones = open_starts(project, registered.entries())
        assert [item.holder is None for item in open_ones] == [True, False]
        (line,) = orphan_lines(project, "local")
    assert line.startswith(f"note: start #2 (demo/ruler) of {older.time} has no result")
    assert line.endswith('`ledger result 2 --failed "why"`')


def test_asking_who_has_a_lease_takes_nothing(project: Path) -> None:
    """No file is made, and two who ask at once do not see each other."""
    assert holder_of(project, "demo", "ruler", "") is None
    assert not (project / "data").exists()
    with lease(project, "demo", "ruler", "") as held:
        first, second = (holder_of(project, "demo", "ruler", "") for _ in range(2))
        assert first == second
        assert first is not None
        held.path.write_text("not json")
        assert holder_of(project, "demo", "ruler", "") != first
    assert holder_of(project, "demo", "ruler", "") is None


def test_the_next_command_names_what_was_left(project: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """run, start and register print one line for each orphan of the branch they write to."""
    monkeypatch.chdir(project)
    register(project, create_branch(project, "main", "demo/main"), CLAIM)
    main(["start", "capture", "--label", "a\x1b[2J", "--branch", "main"])
    capsys.readouterr()
    for words in (["register", str(CLAIM)], ["run", "ruler"], ["start", "ruler"]):
        tail = ["--", "true"] if words[0] == "run" else []
        assert main([*words, "--branch", "main", *tail]) == 0
        said = capsys.readouterr().err
        assert "start #2 (demo/capture a [2J) of 20" in said
        assert '`ledger result 2 --failed "why" --branch main`' in said
    assert main(["start", "ruler", "--branch", "local"]) == 0
    assert "note:" not in capsys.readouterr().err
