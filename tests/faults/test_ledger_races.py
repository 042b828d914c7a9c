"""Two who change one registration at the same moment: one of them is refused, and the ledger still verifies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger.amending import amend, void
from ledger.branches import open_for_writing
from ledger.errors import Drifted, UsageError, Voided
from ledger.launch import find_registration, launch
from ledger.registration import register
from ledger.store import Ledger
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")


@pytest.fixture
def ledger(project):
    """The branch local of the project, with the claim registered as #1 and edited since."""
    found = open_for_writing(project, "local")
    register(project, found, CLAIM)
    return found


def edit(project, threshold):
    """Another threshold in the claim on the disk."""
    text = (project / CLAIM).read_text()
    (project / CLAIM).write_text(text.replace('threshold: "0"', f'threshold: "{threshold}"'))


def voids(project, ledger):
    return void(ledger, 1, "withdrawn")


def amends(project, ledger):
    edit(project, 9)
    return amend(project, ledger, 1, CLAIM, "another threshold")


def starts(project, ledger):
    with launch(project, "local", find_registration(project, ["local"], CLAIM), "ruler") as attempt:
        attempt.finish([], project)


@pytest.mark.parametrize(
    ("first", "second", "refusal", "words"),
    [
        (voids, amends, UsageError, "was voided by #2"),
        (voids, voids, UsageError, "was voided by #2"),
        (amends, voids, UsageError, "was amended by #2 just now"),
        (voids, starts, Voided, "was voided by #2"),
        (amends, starts, Drifted, "was amended by #2 since"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_of_two_at_the_same_moment_the_second_is_refused(project, ledger, monkeypatch, first, second, refusal, words):
    """The first takes the number while the second is about to: what was checked before holds no longer."""
    link = os.link

    def overtaken(source, target):
        monkeypatch.setattr(os, "link", link)
        first(project, Ledger.open(ledger.path))
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    with pytest.raises(refusal, match=words):
        second(project, ledger)
    assert len(ledger.entries()) == 3
    assert not list(ledger.path.rglob("*.tmp"))
    report = verify(project)
    assert report.ok, report.text()
