"""Any subset of bodies may be withheld: what is left verifies, with notes where something cannot be checked."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger import folders
from ledger.branches import create_branch
from ledger.registration import register
from ledger.reports import Report
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")
FULL = Path(__file__).parents[1] / "bad_ledgers" / "full"
BODIES = [("main", seq) for seq in range(17)] + [("side", seq) for seq in range(3)]
VALUES = {"ridgefill": [2.0] * 30, "identity": [1.0] * 30}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One copy of the full project; every test puts back what it took away."""
    root = tmp_path_factory.mktemp("withheld") / "root"
    shutil.copytree(FULL, root)
    return root


def verified_without(root: Path, *bodies: tuple[str, int]) -> Report:
    """The report while some bodies and their salts are away."""
    ledgers = [(root / "data/ledger" / branch, seq) for branch, seq in bodies]
    paths = [place(ledger, seq) for ledger, seq in ledgers for place in (folders.body_path, folders.salt_path)]
    kept = {path: path.read_bytes() for path in paths}
    for path in paths:
        path.unlink()
    try:
        return verify(root)
    finally:
        for path, data in kept.items():
            path.write_bytes(data)


def codes(report: Report) -> set[str]:
    """Codes of everything that was found."""
    return {finding.code for branch in report.branches for finding in branch.findings}


@pytest.mark.parametrize("body", BODIES, ids=lambda body: f"{body[0]}-{body[1]}")
def test_every_single_body_can_be_withheld(copy: Path, body: tuple[str, int]) -> None:
    """Whatever hung on it is a note."""
    report = verified_without(copy, body)
    assert report.ok, report.text()
    assert "withheld" in codes(report)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.sampled_from(BODIES), min_size=2))
def test_every_subset_of_bodies_can_be_withheld(copy: Path, bodies: set[tuple[str, int]]) -> None:
    """Chain, signatures and checkpoints stand without them."""
    report = verified_without(copy, *sorted(bodies))
    assert report.ok, report.text()
    assert "pinned up to entry 15 of 16" in report.branches[0].state or bodies & {("main", 14), ("main", 15)}


def test_a_deviation_whose_reason_is_withheld_is_a_note(copy: Path) -> None:
    """The start that came before the amendment is away, so the rule alone decides here; the published word stands."""
    report = verified_without(copy, ("main", 9))
    assert "verdicts_unchecked" in codes(report)
    assert [verdict.verdict for verdict in report.branches[0].decided[1].verdicts] == [
        "supported",
        "refuted",
        "undecided",
    ]


def test_results_that_a_withheld_run_replaced_are_a_note(project: Path, measured) -> None:
    """A published run, then another of a changed config that wrote the same file: the second may be withheld."""
    ledger = create_branch(project, "main", "test/main")
    register(project, ledger, CLAIM)
    measured(project, VALUES, branch="main")
    (project / "workflow/config/demo.yaml").write_text("title: later\n")
    register(project, ledger, CLAIM)
    measured(project, {**VALUES, "identity": [1.5] * 30}, branch="main")
    assert verify(project).ok
    for seq in (5, 6):
        report = verified_without(project, ("main", seq))
        assert report.ok, report.text()
        assert {"output_unchecked", "config_changed"} <= codes(report)
    assert verify(project).ok


def test_withholding_an_earlier_run_hides_no_changed_file(project: Path, measured) -> None:
    """Only a later entry can have replaced an output."""
    ledger = create_branch(project, "main", "test/main")
    register(project, ledger, CLAIM)
    for number in (1.0, 1.5):
        measured(project, {**VALUES, "identity": [number] * 30}, branch="main")
    (project / "data/results/demo/scores.parquet").write_bytes(b"other")
    report = verified_without(project, ("main", 3))
    assert [finding.code for finding in report.errors] == ["output_changed"]
