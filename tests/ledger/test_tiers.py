"""Tiers of evidence that a registration came before its run: never a higher one than was shown."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ledger.branches import branch_path, create_branch, open_branch, open_for_writing
from ledger.chain import read_chain
from ledger.checkpoints import token_path
from ledger.cli import main
from ledger.custody import Trust, Vouched
from ledger.registration import register
from ledger.store import Ledger
from ledger.tiers import shown_tiers
from ledger.verify import verify
from ledger.world import World

CLAIM = Path("workflow/claims/demo.yaml")
SCORES = Path("results/demo/scores.parquet")
VALUES = {"ridgefill": [2.0] * 30, "identity": [1.0] * 30}
STAMP = "2026-11-01T08:05:30Z"  # the time of the token in full/, between entries 3 and 4


@pytest.fixture
def registered(project: Path) -> Path:
    """A project whose claim is registered on local."""
    register(project, open_for_writing(project, "local"), CLAIM)
    return project


def tiers(root: Path, *pems: bytes) -> dict[tuple[str, int], str]:
    """(branch, start) -> tier of every run."""
    report = verify(root, trust=Trust((), pems))
    return {(branch.name, run.start): run.tier for branch in report.branches for run in branch.runs}


def world(root: Path) -> World:
    """Every branch of a project."""
    names = ("main", "side", "twig")
    return World({name: read_chain(root / "data/ledger" / name) for name in names if branch_path(root, name).exists()})


def test_hash_links_alone_are_tier_one(registered: Path, measured) -> None:
    """An output that states no seed shows nothing more."""
    measured(registered, VALUES, metadata={})
    assert tiers(registered) == {("local", 2): "T1"}


def test_a_run_without_a_result_is_tier_zero(full: Path) -> None:
    """Nothing links its end to its start."""
    (full / "data/ledger/side/entries/00000002.json").unlink()
    for folder, suffix in (("bodies", ".json"), ("salts", "")):
        (full / f"data/ledger/side/{folder}/00000002{suffix}").unlink()
    assert tiers(full)["side", 1] == "T0"


def test_an_output_that_states_the_seed_of_its_registration_is_tier_two(registered: Path, measured) -> None:
    """The seed follows from the registration, so the output was made after it."""
    measured(registered, VALUES)
    assert tiers(registered) == {("local", 2): "T2"}
    assert "order of registration, start and result: T2" in verify(registered).text()


def test_another_seed_in_an_output_is_an_error(registered: Path, measured) -> None:
    """It was not drawn from what was registered; nothing above tier one is shown."""
    measured(registered, VALUES, metadata={"run_seed": "7"})
    report = verify(registered)
    assert [finding.code for finding in report.errors] == ["wrong_output_seed"]
    assert "from seed 7" in report.errors[0].message
    assert report.exit_code == 5
    assert tiers(registered) == {("local", 2): "T1"}


def test_a_seed_in_bytes_that_were_not_recorded_shows_nothing(registered: Path, measured, forging) -> None:
    """The right seed written into other bytes, or bytes that are gone."""
    attempt = measured(registered, VALUES)
    row = {"metric": "ruler_filled", "arm": "identity", "item": "q", "value": 1.0}
    forging.write_table(registered / SCORES, [row], {"run_seed": str(attempt.seed)})
    assert tiers(registered) == {("local", 2): "T1"}
    (registered / SCORES).unlink()
    assert tiers(registered) == {("local", 2): "T1"}


def test_a_seed_of_an_earlier_registration_does_not_fit_an_amendment(registered: Path, measured) -> None:
    """Amending gives other seeds, so outputs from before cannot pass as later ones."""
    seed = measured(registered, VALUES).seed
    (registered / CLAIM).write_text((registered / CLAIM).read_text().replace("min_n: 30", "min_n: 29"))
    assert main(["amend", "--root", str(registered), "1", str(CLAIM), "--reason", "why"]) == 0
    assert measured(registered, VALUES).seed != seed
    assert tiers(registered)["local", 5] == "T2"


def test_a_time_stamp_before_the_start_is_tier_three(full: Path) -> None:
    """The token over four entries holds registration and amendment, and is dated before both starts of demo."""
    root = (full / "tsa-root.pem").read_bytes()
    assert tiers(full, root) == {("main", 4): "T3", ("main", 9): "T1", ("main", 12): "T2", ("side", 1): "T3"}
    assert verify(full, trust=Trust((), (root,))).branches[0].vouched[0].stamped == STAMP


def test_a_time_stamp_nobody_can_check_shows_nothing(full: Path, capsys) -> None:
    """Without the root of its authority it is a note; with it, the command line reaches the same tier."""
    assert tiers(full) == {("main", 4): "T2", ("main", 9): "T1", ("main", 12): "T2", ("side", 1): "T1"}
    assert main(["verify", "--root", str(full)]) == 0
    assert "note timestamp_unchecked: checkpoint 4" in capsys.readouterr().out
    options = ["--root", str(full), "--tsa-root", str(full / "tsa-root.pem")]
    assert main(["verify", *options]) == 0
    assert "timestamp_unchecked" not in capsys.readouterr().out
    assert main(["verdicts", *options]) == 0
    assert "#3 of main, 2026-11-01T08:05:00Z, confirmatory; order shown: T3" in capsys.readouterr().out


def test_a_time_stamp_over_another_text_is_an_error_and_shows_nothing(full: Path) -> None:
    """Moved beside another checkpoint, a true token is false there."""
    ledger = full / "data/ledger/main"
    shutil.move(token_path(ledger, 4), token_path(ledger, 8))
    report = verify(full, trust=Trust((), ((full / "tsa-root.pem").read_bytes(),)))
    assert [finding.code for finding in report.errors] == ["bad_timestamp"]
    assert {run.tier for branch in report.branches for run in branch.runs} == {"T1", "T2"}


@pytest.mark.parametrize(
    ("size", "stamped", "shown"),
    [
        (4, STAMP, {("main", 4): "T3", ("side", 1): "T3"}),
        (4, "2026-11-01T08:06:00Z", {("side", 1): "T3"}),  # the second in which the start of main was written
        (4, "2026-11-30T00:00:00Z", {}),
        (4, None, {}),
        (3, STAMP, {}),  # holds the registration, not the amendment that was run
        (2, STAMP, {}),
        (5, STAMP, {("side", 1): "T3"}),  # holds the start of main itself
    ],
)
def test_what_a_time_stamp_shows(full: Path, size: int, stamped: str | None, shown: dict) -> None:
    """It must hold the version that was run and not the start, and be dated before the start."""
    found = world(full)
    assert found.entry("main", 4).time == "2026-11-01T08:06:00Z"
    vouched = {"main": [Vouched(size, (), False, stamped)]}
    assert {key: tier for key, tier in shown_tiers(full, found, vouched).items() if tier == "T3"} == shown


def test_a_time_stamp_over_another_branch_shows_nothing(full: Path) -> None:
    """It has to hold the registration."""
    vouched = {"side": [Vouched(1, (), False, STAMP)]}
    assert "T3" not in shown_tiers(full, world(full), vouched).values()


def test_order_across_branches_is_only_what_forks_prove(full: Path) -> None:
    """Side stands on eight entries of main: those came first, and of everything else nobody can tell."""
    found = world(full)
    assert found.precedes("main", 3, "main", 4)
    assert not found.precedes("main", 4, "main", 4)
    assert [found.precedes("main", seq, "side", 1) for seq in (0, 7, 8, 16)] == [True, True, False, False]
    assert not any(found.precedes("side", 0, "main", seq) for seq in range(17))


def test_order_reaches_through_forks_of_forks(full: Path) -> None:
    """A twig of side stands on side, and through it on main."""
    Ledger.fork(branch_path(full, "twig"), "full/twig", open_branch(full, "side"))
    found = world(full)
    assert found.precedes("side", 2, "twig", 0)
    assert found.precedes("main", 7, "twig", 0)
    assert not found.precedes("main", 8, "twig", 0)
    assert not found.precedes("twig", 0, "side", 2)


def test_a_fork_from_entries_that_never_were_proves_no_order(full: Path, forging) -> None:
    """Its parent's root is another one, so it may stand on anything."""
    text = forging.stored(full, 0, "data/ledger/side")["checkpoint"].replace("\n8\n", "\n9\n")
    forging.reforge(full, 0, {"checkpoint": text}, "data/ledger/side")
    assert not world(full).precedes("main", 0, "side", 1)


def test_branches_beside_each_other_have_no_order(full: Path) -> None:
    """Both stand on main; a start of one says nothing about the other."""
    create_branch(full, "twig", "full/twig")
    found = world(full)
    assert not found.precedes("side", 0, "twig", 0)
    assert not found.precedes("twig", 0, "side", 2)
    assert found.precedes("main", 16, "twig", 0)
