"""A clock that was set back: nothing is lost or reordered, and who verifies is told."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger import store
from ledger.branches import open_for_writing
from ledger.cli import main
from ledger.launch import find_registration, launch
from ledger.registration import register
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")


class Clock:
    """What the store asks for the time; ``shows`` is what it is told."""

    shows = datetime(2026, 5, 4, 12, tzinfo=UTC)

    @classmethod
    def now(cls, zone):
        """The time that is shown."""
        assert zone is UTC
        return cls.shows


@pytest.fixture
def clock(monkeypatch):
    """The store's clock, to be set."""
    monkeypatch.setattr(store, "datetime", Clock)
    monkeypatch.setattr(Clock, "shows", Clock.shows)
    return Clock


def test_a_clock_set_back_between_register_and_run_is_a_warning_and_no_more(project, clock, monkeypatch, capsys):
    """Entries keep their order by number and hash, the run its grade and tier; `ledger verify` names the entry."""
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    clock.shows = datetime(2001, 1, 1, tzinfo=UTC)
    with launch(project, "local", find_registration(project, ["local"], CLAIM), "ruler") as attempt:
        attempt.finish([], project)
    entries = ledger.entries()
    assert [entry.kind for entry in entries] == ["genesis", "register", "start", "result"]
    assert [entry.time[:4] for entry in entries] == ["2026", "2026", "2001", "2001"]
    report = verify(project)
    assert report.ok
    (branch,) = report.branches
    assert [(one.code, one.seq) for one in branch.findings if one.level == "warning"] == [("clock_backwards", 2)]
    assert [(run.status, run.grade, run.tier) for run in branch.runs] == [("ok", "confirmatory", "T1")]
    monkeypatch.chdir(project)
    assert main(["verify"]) == 0
    assert "its time 2001-01-01T00:00:00Z is before the entry before it" in capsys.readouterr().out


def test_a_clock_that_was_ahead_for_a_while_is_told_when_it_is_right_again(project, clock):
    """The entry after the correction carries the warning; the claim stays registered before the run."""
    clock.shows = datetime(2090, 1, 1, tzinfo=UTC)
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    clock.shows = datetime(2026, 5, 4, tzinfo=UTC)
    with launch(project, "local", find_registration(project, ["local"], CLAIM), "ruler") as attempt:
        attempt.finish([], project)
    (branch,) = verify(project).branches
    assert branch.findings
    assert [one.seq for one in branch.findings if one.code == "clock_backwards"] == [2]
    assert branch.runs[0].status == "ok"
