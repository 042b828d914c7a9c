"""``ledger status``: what stands, what runs, what was never run, and the one command to type next."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger import folders
from ledger.amending import void
from ledger.branches import create_branch, open_for_writing
from ledger.checkpoints import note_path
from ledger.cli import main
from ledger.files import write_over
from ledger.lease import lease
from ledger.registration import register
from ledger.status import status

CLAIM = "workflow/claims/demo.yaml"


@pytest.fixture(autouse=True)
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands are typed in the project's folder."""
    monkeypatch.chdir(project)
    return project


def said(capsys) -> str:
    """What ``ledger status`` prints now, its last line without ``next: ``."""
    capsys.readouterr()
    assert main(["status"]) == 0
    return capsys.readouterr().out


def test_each_step_leads_to_the_next_command(here: Path, capsys) -> None:
    """Register, run, close what was left, repair a drift, verify."""
    open_for_writing(here, "local")
    assert said(capsys).endswith("next: ledger register CLAIM.yaml\n")
    main(["register", CLAIM])
    assert said(capsys).endswith("next: ledger run demo/capture -- COMMAND\n")
    main(["run", "capture", "--", "true"])
    assert said(capsys).endswith("next: ledger run demo/ruler -- COMMAND\n")
    (here / "workflow/config/demo.yaml").write_text("title: other\n")
    assert said(capsys).endswith(f"next: ledger register {CLAIM}\n")
    (here / "workflow/config/demo.yaml").write_text("title: demo\n")
    main(["start", "ruler"])
    assert said(capsys).endswith('next: ledger result 4 --failed "why"\n')
    with lease(here, "demo", "ruler", ""):
        assert said(capsys).endswith("next: ledger verify\n")
    main(["result", "4", "--ok"])
    assert said(capsys).endswith("next: ledger verify\n")


def test_registrations_are_listed_with_what_became_of_them(here: Path, capsys, claim_text: str) -> None:
    """Standing, voided, overdue and drifted ones, and the runs that none has started."""
    ledger = open_for_writing(here, "local")
    register(here, ledger, Path(CLAIM))
    void(ledger, 1, "a slip\nof the pen")
    register(here, ledger, Path(CLAIM))
    (here / "late.yaml").write_text(claim_text + 'start_by: "2020-01-31"\n')
    register(here, ledger, Path("late.yaml"))
    (here / "moved.yaml").write_text(claim_text)
    register(here, ledger, Path("moved.yaml"))
    (here / "moved.yaml").write_text(claim_text + "\n")
    main(["run", "ruler", "--claim", CLAIM, "--", "false"])
    (branch,) = status(here).branches
    states = [(item.seq, item.state, item.never_started) for item in branch.registrations]
    assert states == [
        (1, "voided", ("capture", "ruler")),
        (3, "standing", ("capture",)),
        (4, "overdue", ("capture", "ruler")),
        (5, "drifted", ("capture", "ruler")),
    ]
    assert (branch.ok, branch.failed) == (0, 1)
    shown = said(capsys)
    for part in ("1 voided, 1 standing, 1 overdue, 1 drifted", "1 failed", "by #2: a slip of the pen", "moved.yaml"):
        assert part in shown


def test_a_run_counts_for_its_registration_on_any_branch(here: Path) -> None:
    """A run on local under a registration of main: main's registration has it; local stands on main."""
    main_ledger = create_branch(here, "main", "demo/main")
    register(here, main_ledger, Path(CLAIM))
    main(["run", "ruler", "--", "true"])
    first, second = status(here).branches
    assert first.registrations[0].never_started == ("capture",)
    assert (second.name, second.parent, second.ok) == ("local", ("demo/main", 2), 1)
    assert second.registrations == ()
    assert [branch.name for branch in status(here, "local").branches] == ["local"]


def test_the_newest_checkpoint_and_what_lies_beyond_it_are_named(here: Path, capsys) -> None:
    """The size is that of the last signed note."""
    ledger = open_for_writing(here, "local")
    assert "checkpoint     none" in said(capsys)
    for size in (1, 2):
        write_over(note_path(ledger.path, size), b"")
    for _ in range(3):
        register(here, ledger, Path(CLAIM))
        void(ledger, len(ledger.entries()) - 1, "again")
    assert "checkpoint     at 2 entries; 5 lie beyond it" in said(capsys)


def test_json_holds_what_the_table_says(here: Path, capsys) -> None:
    """Runs at work name their process, orphans none."""
    main(["register", CLAIM])
    main(["start", "ruler", "--label", "a"])
    main(["start", "ruler", "--label", "b"])
    capsys.readouterr()
    with lease(here, "demo", "ruler", "a"):
        assert main(["status", "--json", "--branch", "local"]) == 0
    found = json.loads(capsys.readouterr().out)
    (branch,) = found["branches"]
    assert found["next"] == 'ledger result 3 --failed "why"'
    assert [item["run"] for item in branch["open"]] == ["demo/ruler a", "demo/ruler b"]
    assert branch["open"][0]["holder"].startswith("process ")
    assert branch["open"][1]["holder"] is None
    assert branch["broken"] is None


def test_lines_stay_within_a_hundred_columns(here: Path, capsys, claim_text: str) -> None:
    """Long names, labels and reasons are cut; nothing in them steers a terminal."""
    (here / CLAIM).write_text(claim_text.replace("experiment: demo", f"experiment: {'e' * 90}"))
    main(["register", CLAIM])
    main(["start", "ruler", "--label", "l" * 300 + "\x1b[2J"])
    main(["register", CLAIM])
    shown = said(capsys)
    assert max(map(len, shown.splitlines())) <= 100
    assert "\x1b" not in shown
    assert "…" in shown


def test_a_broken_chain_ends_with_code_4(here: Path, capsys) -> None:
    """The first error is named, nothing else is said of the branch, and verify is next."""
    main(["register", CLAIM])
    path = folders.body_path(here / "data/ledger/local", 1)
    path.write_bytes(path.read_bytes().replace(b"demo", b"dem0", 1))
    capsys.readouterr()
    assert main(["status"]) == 4
    shown = capsys.readouterr().out
    assert "BROKEN         error wrong_commit #1" in shown
    assert "REGISTRATION" not in shown
    assert shown.endswith("next: ledger verify\n")


def test_withheld_registrations_are_counted_and_hide_nothing_else(here: Path, capsys) -> None:
    """A branch whose registration body is not here still has its status."""
    main(["register", CLAIM])
    main(["start", "ruler"])
    ledger = here / "data/ledger/local"
    for path in (folders.body_path(ledger, 1), folders.salt_path(ledger, 1)):
        path.unlink()
    assert "1 withheld" in (shown := said(capsys))
    assert "demo/ruler" in shown


def test_no_ledger_is_said_with_what_to_type(here: Path, capsys) -> None:
    """Code 12, for a project without one and for a branch that is not there."""
    assert main(["status"]) == 12
    assert "type `ledger init`" in capsys.readouterr().err
    main(["init"])
    assert main(["status", "--branch", "absent"]) == 12
    assert "there is no ledger branch 'absent'" in capsys.readouterr().err
