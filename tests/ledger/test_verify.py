"""verify: what it accepts, what it notes, and how it looks files up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ledger import folders
from ledger.branches import branch_names, branch_path, create_branch, open_for_writing
from ledger.errors import FormatError, NoLedger, UsageError
from ledger.files import inside, safe_path
from ledger.launch import find_registration, launch
from ledger.registration import register
from ledger.verify import Report, verify

CLAIM = Path("workflow/claims/demo.yaml")


def codes(report: Report, level: str) -> list[str]:
    """Codes of one level over all branches."""
    found = [finding for branch in report.branches for finding in branch.findings]
    return [finding.code for finding in (*found, *report.findings) if finding.level == level]


@pytest.fixture
def ran(project: Path) -> Path:
    """A project whose claim ran once on local, with one output."""
    register(project, open_for_writing(project, "local"), CLAIM)
    run(project, "first")
    return project


def run(project: Path, text: str, branch: str = "local") -> None:
    """Run ``ruler`` so that its output holds ``text``."""
    base = project / "results" / "demo"
    registration = find_registration(project, ["local", "main"], CLAIM)
    with launch(project, branch, registration, "ruler") as attempt:
        base.mkdir(parents=True, exist_ok=True)
        (base / "out.txt").write_text(text)
        attempt.finish(["out.txt"], base, published=["out.txt"])


def test_an_intact_ledger_says_that_its_end_is_not_pinned(ran: Path) -> None:
    """Without a checkpoint nobody can know whether later entries were cut off, and verify says so."""
    report = verify(ran)
    assert report.ok
    assert "local: 4 entries, prefix intact, end not pinned" in report.text()
    assert report.text().endswith("ledger verified")


def test_runs_never_started_are_listed_and_no_error(ran: Path) -> None:
    """Closed accounting: the claim's other run is named."""
    report = verify(ran)
    assert codes(report, "note") == ["never_run"]
    assert "never started: capture" in report.text()


def test_runs_reach_tier_one_and_never_more(ran: Path) -> None:
    """Hash links prove order within the chain; nothing higher is claimed."""
    (record,) = verify(ran).branches[0].runs
    assert (record.tier, record.status, record.registration) == ("T1", "ok", "local#1")
    assert record.grade == "confirmatory"


def test_an_orphaned_start_is_listed_and_no_error(ran: Path) -> None:
    """A start without result, as a killed process leaves it, is a note."""
    ledger = open_for_writing(ran, "local")
    start = dict(ledger.entries()[2].body or {})
    ledger.append("start", {key: value for key, value in start.items() if key not in ("origin", "time")})
    report = verify(ran)
    assert report.ok
    assert "orphaned_start" in codes(report, "note")
    assert [record.status for record in report.branches[0].runs] == ["ok", "open"]


def test_a_changed_local_output_is_an_error_and_an_absent_one_is_not(ran: Path) -> None:
    """Local results may be deleted, but what is there must be what was recorded."""
    output = ran / "results/demo/out.txt"
    output.write_text("other")
    report = verify(ran)
    assert (codes(report, "error"), report.exit_code) == (["output_changed"], 5)
    output.unlink()
    report = verify(ran)
    assert report.ok
    assert "output_absent" in codes(report, "note")


def test_the_last_successful_result_stands_for_a_path(ran: Path) -> None:
    """After a second run the new bytes are right and the old ones are not."""
    run(ran, "second")
    assert verify(ran).ok
    (ran / "results/demo/out.txt").write_text("first")
    assert not verify(ran).ok


def test_a_run_on_another_branch_supersedes_and_is_noted(project: Path) -> None:
    """Two branches write to one result folder: the newer bytes are known, so the older record is a note."""
    register(project, create_branch(project, "main", "demo/main"), CLAIM)
    run(project, "mine")
    run(project, "maintainer's", branch="main")
    shutil.copytree(project / "results", project / "data" / "results")
    report = verify(project)
    assert report.ok, report.text()
    assert "superseded" in codes(report, "note")


def test_an_edited_config_without_published_results_is_a_note(ran: Path) -> None:
    """The registration stands, it just can launch nothing any more."""
    (ran / "workflow/config/demo.yaml").write_text("title: later\n")
    report = verify(ran)
    assert report.ok
    assert "config_changed" in codes(report, "note")


def test_withheld_bodies_are_noted_and_the_chain_still_verifies(ran: Path) -> None:
    """Any subset of bodies can be withheld: kinds and order stay visible."""
    ledger = branch_path(ran, "local")
    for seq in (0, 1, 3):
        folders.body_path(ledger, seq).unlink()
        folders.salt_path(ledger, seq).unlink()
    report = verify(ran)
    assert report.ok, report.text()
    assert codes(report, "note").count("withheld") == 3


def test_torn_temporary_files_are_reported_and_harmless(ran: Path) -> None:
    """What a crash leaves behind is named, and verification passes."""
    ledger = branch_path(ran, "local")
    for folder in folders.FOLDERS:
        (ledger / folder / f"{'a' * 64}.tmp").write_bytes(b'{"version":')
    report = verify(ran)
    assert report.ok
    assert codes(report, "note").count("temporary_file") == 3


def test_a_clock_going_backwards_is_a_warning(ran: Path, forging) -> None:
    """Order comes from the numbers; an earlier time is worth a look and no error."""
    local = "data/ledger/local"
    old = forging.stored(ran, 3, local)
    start = {**forging.stored(ran, 2, local), "time": "2001-01-01T00:00:00Z"}
    forging.forge(ran, 4, start, local, kind="start", time="2001-01-01T00:00:00Z")
    assert old["status"] == "ok"
    report = verify(ran)
    assert report.ok
    assert codes(report, "warning") == ["clock_backwards"]


def test_text_with_line_separators_is_fine(project: Path, claim_text: str) -> None:
    """U+2028, combining characters and emoji in a claim change nothing."""
    text = claim_text.replace('title: "Ridge', 'title: "A\u2028e\u0301\U0001f600 ridge')
    (project / CLAIM).write_text(text, encoding="utf-8")
    register(project, open_for_writing(project, "local"), CLAIM)
    assert verify(project).ok


def test_grades_follow_from_the_chain(project: Path, claim_text: str) -> None:
    """No prediction can never be confirmatory; after a start of the experiment it is a follow-up."""
    ledger = open_for_writing(project, "local")
    bare = claim_text[: claim_text.index("predictions:")] + "predictions: []\n"
    (project / CLAIM).write_text(bare)
    assert register(project, ledger, CLAIM)[0].header["grade"] == "no_prediction"
    (project / CLAIM).write_text(claim_text)
    assert register(project, ledger, CLAIM)[0].header["grade"] == "confirmatory"
    run(project, "x")
    (project / CLAIM).write_text(claim_text.replace("min_n: 30", "min_n: 31"))
    assert register(project, ledger, CLAIM)[0].header["grade"] == "follow_up"
    other = claim_text.replace("experiment: demo", "experiment: other")
    (project / CLAIM).write_text(other)
    assert register(project, ledger, CLAIM)[0].header["grade"] == "confirmatory"
    assert verify(project).ok


def test_a_fork_inherits_the_runs_it_stands_on(project: Path, claim_text: str) -> None:
    """What ran on main before the fork makes a registration on the branch a follow-up."""
    register(project, create_branch(project, "main", "demo/main"), CLAIM)
    run(project, "x", branch="main")
    shutil.copytree(project / "results", project / "data" / "results")
    (project / CLAIM).write_text(claim_text.replace("min_n: 30", "min_n: 31"))
    entry, _ = register(project, open_for_writing(project, "local"), CLAIM)
    assert entry.header["grade"] == "follow_up"
    (project / CLAIM).write_text(claim_text)
    assert verify(project).ok
    shutil.rmtree(branch_path(project, "main"))
    shutil.rmtree(project / "data" / "results")
    report = verify(project)
    assert report.ok, report.text()
    assert {"parent_absent", "grade_unchecked"} <= set(codes(report, "note"))


def test_main_may_grow_after_a_fork(project: Path) -> None:
    """The parent's checkpoint is a prefix; later entries of the parent do not matter."""
    main = create_branch(project, "main", "demo/main")
    open_for_writing(project, "local")
    register(project, main, CLAIM)
    assert verify(project).ok


def test_one_branch_can_be_verified_alone(project: Path) -> None:
    """Only the named branch is reported; an unknown one names the known ones."""
    create_branch(project, "main", "demo/main")
    create_branch(project, "local")
    assert [branch.name for branch in verify(project, ["local"]).branches] == ["local"]
    assert branch_names(project) == ("main", "local")
    with pytest.raises(NoLedger, match=r"found: main, local"):
        verify(project, ["else"])


@pytest.mark.parametrize("name", ["../x", "A", "", ".leases", "a/b", "x" * 80])
def test_branch_names_cannot_leave_their_folder(project: Path, name: str) -> None:
    """Only plain lower-case names are branches."""
    with pytest.raises(UsageError):
        branch_path(project, name)


@pytest.mark.parametrize("path", ["", "/x", "..", "a/../b", "./a", "a//b", "a\\b", "C:/x", "a\0b", "a/", 3, None])
def test_paths_that_could_leave_the_root_are_refused(path: object) -> None:
    """Only plain relative paths are recorded."""
    with pytest.raises(FormatError) as refusal:
        safe_path(path, "output")
    assert refusal.value.code == "path_outside"


def test_links_inside_the_root_are_followed_and_others_are_not(tmp_path: Path) -> None:
    """A link to a file in the root is that file; one that leads out is refused."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "a").write_text("x")
    (root / "b").symlink_to("a")
    (root / "c").symlink_to("..")
    assert inside(root, "b").read_text() == "x"
    with pytest.raises(FormatError):
        inside(root, "c/other")
