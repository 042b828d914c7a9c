"""What a redacted ledger still says about open registrations, when amendments, voids and branches come in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.amending import amend, void
from ledger.branches import branch_names, branch_path, create_branch, open_branch
from ledger.chain import read_chain
from ledger.launch import find_registration, launch
from ledger.openness import Open, registrations, starts
from ledger.publishing.redaction import redacted
from ledger.world import World

CLAIM = Path("workflow/claims/demo.yaml")


def _world(root: Path, **withheld: set[int]) -> World:
    chains = {name: read_chain(branch_path(root, name)) for name in branch_names(root)}
    return World({name: redacted(chain, withheld.get(name, set())) for name, chain in chains.items()})


def _about(world: World, seq: int) -> Open:
    return next(item for item in registrations(world, "main") if item.seq == seq)


@pytest.fixture
def amended(shared_ledger: Path) -> Path:
    """Registration 5 (other) is amended by 6 and voided by 7; registration 1 (demo) by 8, under which 9 starts."""
    ledger = open_branch(shared_ledger, "main")
    other, demo = shared_ledger / "workflow/claims/other.yaml", shared_ledger / CLAIM
    other.write_text(other.read_text() + "# longer\n")
    amend(shared_ledger, ledger, 5, other, "a comment was missing")
    void(ledger, 5, "it will not be run")
    demo.write_text(demo.read_text() + "# longer\n")
    amend(shared_ledger, ledger, 1, demo, "a comment was missing")
    with launch(shared_ledger, "main", find_registration(shared_ledger, ["main"], CLAIM), "capture") as attempt:
        attempt.finish([], shared_ledger)
    return shared_ledger


def test_amendments_and_voids_count_with_the_registration_they_name(amended: Path) -> None:
    """A start under an amendment is one of the registration; a void leaves it open and says so."""
    world = _world(amended)
    assert _about(world, 1) == Open(1, "register", (("main", 2), ("main", 4), ("main", 9)), 0, None, (8,))
    assert _about(world, 5) == Open(5, "register", (), 0, 7, (6,))
    assert _about(world, 5).state == "open"


def test_a_start_under_a_withheld_amendment_could_be_of_any_earlier_registration(amended: Path) -> None:
    """With the amendments withheld, start 9 names an entry that could amend registration 5 as well as 1."""
    world = _world(amended, main={2, 4, 6, 7, 8})
    assert _about(world, 1) == Open(1, "register", (), 3, None, ())
    assert _about(world, 5) == Open(5, "register", (), 1, None, ())
    assert _about(world, 5).state == "unknown"


def test_withheld_starts_of_another_branch_could_be_under_any_registration_they_do_not_precede(
    amended: Path,
) -> None:
    """A run on a fork may be of a registration made before or after the fork, so its withheld start counts."""
    create_branch(amended, "side", "test/side")
    with launch(amended, "side", find_registration(amended, ["main"], CLAIM), "ruler", "more") as attempt:
        attempt.finish([], amended)
    assert ("side", 1) in _about(_world(amended), 1).closed_by
    hidden = _world(amended, side={1})
    assert _about(hidden, 5) == Open(5, "register", (), 1, 7, (6,))
    assert [item.maybe for item in starts(hidden, "side")] == [0]
    assert [item.closed_by for item in starts(hidden, "side")] == [(("side", 2),)]
