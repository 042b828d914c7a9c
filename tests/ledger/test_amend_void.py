"""Amending and voiding: what changes on the record, what launches afterwards, and what becomes of verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.amending import amend, void
from ledger.branches import create_branch, open_branch, open_for_writing
from ledger.cli import main
from ledger.errors import ClaimError, Drifted, Overdue, UsageError, Voided
from ledger.launch import find_registration, launch
from ledger.registration import register
from ledger.store import Ledger
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")
GAIN = {"ridgefill": [3.0 + number % 2 for number in range(40)], "identity": [1.0] * 40}


@pytest.fixture
def ledger(project: Path) -> Ledger:
    """The branch local of the project, with the claim registered as #1."""
    found = open_for_writing(project, "local")
    register(project, found, CLAIM)
    return found


def edit(project: Path, old: str, new: str) -> None:
    """Change the claim on the disk."""
    text = (project / CLAIM).read_text()
    assert old in text
    (project / CLAIM).write_text(text.replace(old, new))


def edit_and_amend(project: Path, ledger: Ledger, threshold: str = '"9"'):
    """Amend registration #1 to another threshold."""
    edit(project, 'threshold: "0"', f"threshold: {threshold}")
    return amend(project, ledger, 1, CLAIM, "another threshold")


def decided(project: Path):
    """The verdicts of the only branch, which verifies."""
    report = verify(project)
    assert report.ok, report.text()
    return report.branches[0].decided


def test_an_amendment_before_any_start_decides(project: Path, ledger: Ledger, measured) -> None:
    """A gain of 2.5 beats 0 and not 9: the amended threshold counts, and nothing is deviated."""
    entry = edit_and_amend(project, ledger)
    measured(project, GAIN)
    (item,) = decided(project)
    assert (item.version, item.registered.seq, item.deviation) == (entry, 1, "")
    assert [verdict.verdict for verdict in item.verdicts] == ["refuted"]


def test_an_amendment_after_a_start_makes_every_verdict_deviated(project: Path, ledger: Ledger, measured) -> None:
    """Also when it was run again under the amended claim; what its rule gives is in the reason."""
    measured(project, GAIN)
    edit_and_amend(project, ledger)
    measured(project, GAIN)
    (item,) = decided(project)
    (verdict,) = item.verdicts
    assert verdict.verdict == "deviated"
    assert "amended by #4 although #2 of local had started" in verdict.reason
    assert "the rule alone says refuted: " in verdict.reason
    assert item.version.seq == 4


def test_results_from_before_an_amendment_are_deviated_by_the_rule_they_ran_under(
    project: Path, ledger: Ledger, measured
) -> None:
    """Without another run the old claim still says what would have come out, and that it does not count."""
    measured(project, GAIN)
    edit_and_amend(project, ledger)
    ((verdict,),) = [item.verdicts for item in decided(project)]
    assert verdict.verdict == "deviated"
    assert "the rule alone says supported: " in verdict.reason


def test_even_a_start_that_failed_makes_a_later_amendment_a_deviation(project: Path, ledger: Ledger, measured) -> None:
    """A run that died may have shown its numbers."""
    with pytest.raises(RuntimeError), launch(project, "local", find_registration(project, ["local"], CLAIM), "ruler"):
        raise RuntimeError("seen enough")
    edit_and_amend(project, ledger)
    measured(project, GAIN)
    assert [verdict.verdict for item in decided(project) for verdict in item.verdicts] == ["deviated"]


def test_a_start_names_the_amendment_it_ran_under(project: Path, ledger: Ledger, measured) -> None:
    """Number, leaf hash and seed are those of the amendment."""
    entry = edit_and_amend(project, ledger)
    attempt = measured(project, GAIN)
    assert (attempt.start.body or {})["registration"]["leaf"] == entry.leaf
    assert verify(project).ok


def test_an_amendment_made_after_the_look_up_is_not_launched_under_the_old_claim(
    project: Path, ledger: Ledger, measured
) -> None:
    """The gate looks once more before it appends a start, so nothing runs under what was superseded."""
    old = find_registration(project, ["local"], CLAIM)
    edit_and_amend(project, ledger)
    with (
        pytest.raises(Drifted, match=r"#1 of branch local was amended by #2 since"),
        launch(project, "local", old, "ruler"),
    ):
        raise AssertionError("it must not start")
    assert len(ledger.entries()) == 3
    measured(project, GAIN)
    assert verify(project).ok


def test_a_void_made_after_the_look_up_stops_the_launch(project: Path, ledger: Ledger) -> None:
    """The same for a registration that was withdrawn meanwhile."""
    old = find_registration(project, ["local"], CLAIM)
    void(ledger, 1, "no more")
    with pytest.raises(Voided, match=r"voided by #2 \(no more\)"), launch(project, "local", old, "ruler"):
        raise AssertionError("it must not start")
    assert len(ledger.entries()) == 3


def test_a_voided_registration_launches_nothing_and_can_be_made_anew(project: Path, ledger: Ledger, capsys) -> None:
    """Exit code 8; the same bytes then register as another entry, which launches."""
    options = ["--root", str(project)]
    assert main(["void", "1", "--reason", "wrong model", *options]) == 0
    assert main(["run", *options, "demo/ruler", "--", "true"]) == 8
    assert "was voided by #2 (wrong model)" in capsys.readouterr().err
    entry, new = register(project, ledger, CLAIM)
    assert (entry.seq, new, entry.header["grade"]) == (3, True, "confirmatory")
    assert find_registration(project, ["local"], CLAIM).seq == 3


def test_voiding_after_a_start_hides_nothing(project: Path, ledger: Ledger, measured) -> None:
    """The run, its verdict and the withdrawal all stay in the report."""
    measured(project, GAIN)
    void(ledger, 1, "do not like it")
    report = verify(project)
    assert report.ok
    assert [item.verdict for item in report.branches[0].decided[0].verdicts] == ["supported"]
    (found,) = [item for item in report.branches[0].findings if item.code == "voided_after_start"]
    assert "#2 of local" in found.message


def test_a_registration_past_its_last_day_launches_nothing(project: Path, ledger: Ledger, capsys) -> None:
    """Exit code 9; the sentence names the day and what to change. The claim itself may still be registered."""
    edit(project, "experiment: demo\n", 'experiment: demo\nstart_by: "2026-01-01"\n')
    register(project, ledger, CLAIM)
    with pytest.raises(Overdue, match="start its runs by 2026-01-01"):
        find_registration(project, ["local"], CLAIM)
    assert main(["run", "--root", str(project), "demo/ruler", "--", "true"]) == 9
    assert "start_by" in capsys.readouterr().err
    assert len(ledger.entries()) == 3


def test_a_last_day_that_has_not_passed_launches(project: Path, ledger: Ledger, measured) -> None:
    """Up to the day itself."""
    edit(project, "experiment: demo\n", 'experiment: demo\nstart_by: "9999-12-31"\n')
    register(project, ledger, CLAIM)
    measured(project, GAIN)
    assert verify(project).ok


def test_a_last_day_that_does_not_exist_is_no_claim(project: Path, ledger: Ledger) -> None:
    """Refused when it is read, with its line."""
    edit(project, "experiment: demo\n", 'experiment: demo\nstart_by: "2026-02-30"\n')
    with pytest.raises(ClaimError, match=r"demo\.yaml:5: start_by: found '2026-02-30', expected a day that exists"):
        register(project, ledger, CLAIM)


@pytest.mark.parametrize(
    ("seq", "old", "new", "reason", "words"),
    [
        (1, "arms: ", "arms: ", "why", "has these bytes already"),
        (1, "experiment: demo", "experiment: other", "why", "type `ledger register workflow/claims/demo.yaml` instead"),
        (0, "min_n: 30", "min_n: 31", "why", r"no registration #0 .*standing: #1"),
        (9, "min_n: 30", "min_n: 31", "why", r"no registration #9 .*standing: #1"),
        (-1, "min_n: 30", "min_n: 31", "why", "no registration #-1 "),
        (1, "min_n: 30", "min_n: 31", " ", "no reason"),
    ],
)
def test_what_cannot_be_amended_is_refused_and_nothing_is_appended(
    project: Path, ledger: Ledger, capsys, seq: int, old: str, new: str, reason: str, words: str
) -> None:
    """The same bytes, another experiment, a number that is no registration, no reason: exit code 2."""
    edit(project, old, new)
    with pytest.raises(UsageError, match=words):
        amend(project, ledger, seq, CLAIM, reason)
    arguments = ["amend", "--root", str(project), "--reason", reason, "--", str(seq), str(project / CLAIM)]
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert len(ledger.entries()) == 2


def test_what_is_voided_stays_voided(project: Path, ledger: Ledger) -> None:
    """Neither amended nor voided again, under the number of the registration or of an amendment."""
    edit_and_amend(project, ledger)
    void(ledger, 2, "no more")
    edit(project, "min_n: 30", "min_n: 31")
    for seq in (1, 2):
        with pytest.raises(UsageError, match="was voided by #3"):
            amend(project, ledger, seq, CLAIM, "why")
        with pytest.raises(UsageError, match="was voided by #3"):
            void(ledger, seq, "why")
    assert verify(project).ok


def test_a_registration_of_another_branch_is_amended_there(project: Path) -> None:
    """An amendment stands in the chain of what it amends."""
    register(project, create_branch(project, "main", "demo/main"), CLAIM)
    edit(project, "min_n: 30", "min_n: 31")
    with pytest.raises(UsageError, match=r"no registration #1 .*standing: none"):
        amend(project, open_for_writing(project, "local"), 1, CLAIM, "why")
    assert amend(project, open_branch(project, "main"), 1, CLAIM, "why").seq == 2


def test_amendments_are_graded_like_registrations(project: Path, ledger: Ledger, measured) -> None:
    """Predictions dropped: no prediction; put back: confirmatory; after a start: follow-up."""
    text = (project / CLAIM).read_text()
    (project / CLAIM).write_text(text[: text.index("predictions:")] + "predictions: []\n")
    grades = [amend(project, ledger, 1, CLAIM, "none").header["grade"]]
    (project / CLAIM).write_text(text)
    grades.append(amend(project, ledger, 1, CLAIM, "after all").header["grade"])
    measured(project, GAIN)
    grades.append(edit_and_amend(project, ledger).header["grade"])
    assert grades == ["no_prediction", "confirmatory", "follow_up"]
    assert verify(project).ok


def test_the_amended_bytes_are_registered_and_the_old_ones_are_not(project: Path, ledger: Ledger) -> None:
    """Registering what was amended finds it; going back to the first bytes is drift that names the amendment."""
    entry = edit_and_amend(project, ledger)
    assert register(project, ledger, CLAIM) == (entry, False)
    edit(project, 'threshold: "9"', 'threshold: "0"')
    with pytest.raises(Drifted, match="since registration #1 of branch local, amended by #2"):
        find_registration(project, ["local"], CLAIM)
    assert register(project, ledger, CLAIM)[1]


def test_the_commands_say_what_they_did(project: Path, ledger: Ledger, measured, capsys, monkeypatch) -> None:
    """Number, grade and, after a start, that verdicts are deviated from now on."""
    monkeypatch.chdir(project)
    measured(project, GAIN)
    edit(project, "min_n: 30", "min_n: 31")
    assert main(["amend", "1", str(CLAIM), "--reason", "fewer"]) == 0
    assert "amended registration #1: demo: Ridge beats identity" in (out := capsys.readouterr().out)
    assert "if under this registration, its verdicts are now deviated" in out
    assert main(["void", "1", "--reason", "enough"]) == 0
    assert "voided registration #1 of branch local by entry #5" in capsys.readouterr().out
    assert main(["log"]) == 0
    assert "amends #1: fewer" in (out := capsys.readouterr().out)
    assert "enough" in out
