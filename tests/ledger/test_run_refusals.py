"""``ledger run`` and ``ledger start`` that start nothing: each refusal has its exit code and appends nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger import folders
from ledger.amending import void
from ledger.branches import open_for_writing
from ledger.cli import main
from ledger.lease import lease
from ledger.registration import register
from ledger.store import Ledger

CLAIM = Path("workflow/claims/demo.yaml")
OTHER = Path("workflow/claims/other.yaml")


@pytest.fixture
def registered(project: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The project's local ledger with its claim registered; commands are typed in its folder."""
    monkeypatch.chdir(project)
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    return ledger


def entries(ledger: Ledger) -> int:
    """Number of entry files, whether or not they verify."""
    return len(os.listdir(ledger.path / folders.ENTRIES))


def drift(project: Path, ledger: Ledger) -> None:
    """Edit a pinned config."""
    (project / "workflow/config/demo.yaml").write_text("title: other\n")


def withdraw(project: Path, ledger: Ledger) -> None:
    """Void the registration."""
    void(ledger, 1, "a better design")


def too_late(project: Path, ledger: Ledger) -> None:
    """Register a claim whose last day has passed."""
    (project / CLAIM).write_text((project / CLAIM).read_text() + 'start_by: "2020-01-31"\n')
    register(project, ledger, CLAIM)


def damage(project: Path, ledger: Ledger) -> None:
    """Change one byte of a body."""
    path = folders.body_path(ledger.path, 1)
    path.write_bytes(path.read_bytes().replace(b"demo", b"dem0", 1))


def nothing(project: Path, ledger: Ledger) -> None:
    """Leave everything as it is."""


@pytest.mark.parametrize("command", ["run", "start"])
@pytest.mark.parametrize(
    ("spoil", "words", "exit_code", "says"),
    [
        (nothing, ["absent/ruler"], 6, "the experiment 'absent' is not registered here; type `ledger register"),
        (nothing, ["ruler", "--claim", str(OTHER)], 6, "there is no claim file workflow/claims/other.yaml"),
        (drift, ["demo/ruler"], 7, "workflow/config/demo.yaml changed"),
        (drift, ["ruler"], 7, "workflow/config/demo.yaml changed"),
        (withdraw, ["ruler"], 8, "was voided by #2 (a better design)"),
        (too_late, ["ruler"], 9, "had to start its runs by 2020-01-31"),
        (nothing, ["demo/rular"], 11, "has no run 'rular', expected one of capture, ruler"),
        (nothing, ["rular"], 11, "has no run 'rular', expected one of capture, ruler"),
        (nothing, ["other/ruler", "--claim", str(CLAIM)], 11, "is of the experiment 'demo', not 'other'"),
        (nothing, ["ruler", "--set", "dtype=float16"], 11, "allows bfloat16 for dtype"),
        (damage, ["ruler"], 4, "type `ledger verify`"),
        (nothing, ["ruler", "--set", "dtype"], 2, "expected KEY=VALUE"),
        (nothing, ["ruler", "--set", "dtype=bfloat16", "--set", "dtype=bfloat16"], 2, "every key once"),
        (nothing, ["ruler", "--input", "absent.bin"], 2, "absent.bin cannot be read"),
        (nothing, ["ruler", "--label", "\udcff"], 2, "expected UTF-8 text"),
    ],
)
def test_a_refusal_has_its_code_and_its_sentence(
    project: Path,
    registered: Ledger,
    capsys,
    spoil: Callable[[Path, Ledger], None],
    command: str,
    words: list[str],
    exit_code: int,
    says: str,
) -> None:
    """The same for both commands; the command after -- leaves no trace."""
    spoil(project, registered)
    before = entries(registered)
    tail = ["--", "touch", "ran"] if command == "run" else []
    assert main([command, *words, *tail]) == exit_code
    assert says in capsys.readouterr().err
    assert entries(registered) == before
    assert not (project / "ran").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", "no-such-program"], "'no-such-program' is not found or not executable, so nothing was started"),
        (["--", "workflow/config/model.yaml"], "'workflow/config/model.yaml' is not found or not executable"),
        (["--", "."], "'.' is not found or not executable"),
        (["--output", "../x", "--", "true"], "found the output pattern '../x'"),
        (["--output", "/x", "--", "true"], "found the output pattern '/x'"),
        (["--output", "", "--", "true"], "found the output pattern ''"),
    ],
)
def test_a_command_that_cannot_be_is_no_start(registered: Ledger, capsys, words: list[str], says: str) -> None:
    """Not found, not executable, or with a pattern that leaves the results folder: exit code 2."""
    assert main(["run", "ruler", *words]) == 2
    assert says in capsys.readouterr().err
    assert len(registered.entries()) == 2


def test_a_run_at_work_refuses_a_second_one(project: Path, registered: Ledger, capsys) -> None:
    """Exit code 10 and the process that has the lease; another label is another run."""
    with lease(project, "demo", "ruler", ""):
        assert main(["run", "ruler", "--", "true"]) == 10
        assert f"demo ruler is running (process {os.getpid()} on" in capsys.readouterr().err
        assert len(registered.entries()) == 2
        assert main(["run", "ruler", "--label", "b", "--", "true"]) == 0


def test_nothing_runs_where_nothing_is_registered(project: Path, monkeypatch, capsys) -> None:
    """Without a ledger no run is known, and none is opened."""
    monkeypatch.chdir(project)
    assert main(["run", "ruler", "--", "true"]) == 6
    assert "a claim with the run 'ruler' is not registered here" in capsys.readouterr().err
    assert not (project / "data").exists()


def test_settings_that_would_be_one_variable_are_refused(project: Path, claim_text, monkeypatch, capsys) -> None:
    """Two keys that differ in their signs only cannot both be given."""
    monkeypatch.chdir(project)
    (project / CLAIM).write_text(claim_text.replace("  dtype:", "  a.b: [c]\n  a-b: [c]\n  dtype:"))
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    assert main(["run", "ruler", "--set", "a.b=c", "--set", "a-b=c", "--", "true"]) == 2
    assert "both LEDGER_SET_A_B" in capsys.readouterr().err
    assert main(["run", "ruler", "--set", "a.b=c", "--", "true"]) == 0


def test_a_bare_run_of_two_claims_needs_a_choice(project: Path, registered: Ledger, claim_text, capsys) -> None:
    """Both are listed; the experiment or the claim decides; a claim that no longer stands is no choice."""
    (project / OTHER).write_text(claim_text.replace("experiment: demo", "experiment: other"))
    register(project, registered, OTHER)
    assert main(["run", "ruler", "--", "true"]) == 2
    said = capsys.readouterr().err
    for part in (f"demo in {CLAIM} (#1 of branch local)", f"other in {OTHER} (#2 of branch local)", "--claim FILE"):
        assert part in said
    assert main(["run", "other/ruler", "--", "true"]) == 0
    assert main(["run", "ruler", "--claim", str(CLAIM), "--", "true"]) == 0
    assert main(["run", "rular", "--", "true"]) == 11
    assert "expected one of demo/capture, demo/ruler, other/capture, other/ruler" in capsys.readouterr().err
    void(registered, 2, "a copy")
    assert main(["run", "ruler", "--", "true"]) == 0
    starts = [entry.body for entry in registered.entries() if entry.kind == "start"]
    assert [body["experiment"] for body in starts if body] == ["other", "demo", "demo"]
