"""Ledgers that travel through git: line endings in clones, and two clones that went on separately."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger import folders
from ledger.branches import branch_path, create_branch, open_branch
from ledger.chain import read_chain
from ledger.cli import main
from ledger.errors import Drifted
from ledger.registration import find_registration, register

REPOSITORY = Path(__file__).parents[2]
CLAIM = Path("workflow/claims/demo.yaml")
CONFIGS = [Path("workflow/config/demo.yaml"), Path("workflow/config/model.yaml")]
Git = Callable[..., str]


@pytest.fixture
def git() -> Git:
    """Run git without the settings of this machine and return its output; CalledProcessError on failure."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    environment = {**{name: os.environ[name] for name in os.environ if not name.startswith("GIT_")}, **quiet}

    def call(folder: Path, *arguments: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=True
        ).stdout  # fmt: skip

    return call


@pytest.fixture
def origin(project: Path, git: Git, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A committed project with a registration on the branch ``main`` of its ledger."""
    root = tmp_path_factory.mktemp("git") / "origin"
    shutil.copytree(project, root)
    register(root, create_branch(root, "main"), root / CLAIM)
    git(root, "init", "--quiet", "--initial-branch=main")
    commit(root, git)
    return root


def commit(root: Path, git: Git) -> None:
    """Commit everything there is."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=x")


def clone(root: Path, git: Git, name: str, *settings: str) -> Path:
    """Clone a project beside itself."""
    options = [part for setting in settings for part in ("--config", setting)]
    git(root.parent, "clone", "--quiet", *options, str(root), name)
    return root.parent / name


def register_again(root: Path, git: Git, title: str) -> None:
    """Append another registration to the ledger of a clone and commit it."""
    text = (root / CLAIM).read_text("utf-8")
    (root / CLAIM).write_text(text.replace('title: "', f'title: "{title}: '), "utf-8")
    register(root, open_branch(root, "main"), root / CLAIM)
    git(root, "checkout", "--quiet", "--", str(CLAIM))
    commit(root, git)


@pytest.mark.parametrize(
    ("settings", "attributes"),
    [
        (["core.autocrlf=true"], ""),
        (["core.eol=crlf"], "* text=auto\n"),
        ([], "* text eol=crlf\n"),
        ([], "*.json text eol=crlf\n*.txt text\n"),
    ],
)
def test_no_setting_for_line_endings_reaches_the_files_of_a_ledger(
    origin: Path, git: Git, settings: list[str], attributes: str
) -> None:
    """A branch protects its own folder: the clone has the same bytes there, new lines included, and verifies."""
    (branch_path(origin, "main") / "lines.txt").write_bytes(b"one\ntwo\r\nthree")
    (origin / ".gitattributes").write_text(attributes)
    commit(origin, git)
    copy = clone(origin, git, "copy", *settings)
    files = [path for path in branch_path(origin, "main").rglob("*") if path.is_file()]
    assert len(files) == 8
    for path in files:
        assert (copy / path.relative_to(origin)).read_bytes() == path.read_bytes()
    (branch_path(copy, "main") / "lines.txt").unlink()
    assert main(["verify", "--root", str(copy)]) == 0


def test_a_claim_that_git_converted_is_named_with_its_configs(
    origin: Path, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without attributes of its own a project's claims are converted: verify and launching name each file."""
    copy = clone(origin, git, "copy", "core.autocrlf=true")
    assert b"\r\n" in (copy / CLAIM).read_bytes()
    main(["verify", "--root", str(copy)])
    said = capsys.readouterr().out
    for path in (CLAIM, *CONFIGS):
        assert f"{path} changed (registered " in said
    with pytest.raises(Drifted) as refusal:
        find_registration(copy, ["main"], CLAIM)
    for path in (CLAIM, *CONFIGS):
        assert f"{path} changed" in str(refusal.value)


@pytest.mark.parametrize("setting", ["core.autocrlf=true", "core.eol=crlf"])
def test_the_attributes_of_this_repository_keep_claims_and_configs(
    origin: Path, git: Git, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A project that copies the repository's .gitattributes can launch from any clone."""
    shutil.copy(REPOSITORY / ".gitattributes", origin)
    commit(origin, git)
    copy = clone(origin, git, "copy", setting)
    assert main(["verify", "--root", str(copy)]) == 0
    assert "changed" not in capsys.readouterr().out
    assert find_registration(copy, ["main"], CLAIM).seq == 1


def test_two_clones_that_both_went_on_conflict_on_the_number_they_share(
    origin: Path, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    """Git reports add/add for every part of the entry, and until that is resolved the ledger does not verify."""
    one, two = clone(origin, git, "one"), clone(origin, git, "two")
    register_again(one, git, "one")
    register_again(two, git, "two")
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        git(two, "pull", "--quiet", "--no-rebase", str(one), "main")
    assert "CONFLICT (add/add)" in refusal.value.stdout + refusal.value.stderr
    parts = [place(branch_path(two, "main"), 2) for place in (folders.entry_path, folders.body_path, folders.salt_path)]
    both = {f"AA {path.relative_to(two).as_posix()}" for path in parts}
    assert both <= set(git(two, "status", "--porcelain").splitlines())
    assert main(["verify", "--root", str(two)]) == 4
    assert "#2" in capsys.readouterr().out


@pytest.mark.parametrize(("side", "code", "says"), [("--ours", 4, "wrong_prev #3"), ("--theirs", 0, "4 entries")])
def test_a_conflict_resolved_by_picking_sides_verifies_only_as_one_history(
    origin: Path, git: Git, capsys: pytest.CaptureFixture[str], side: str, code: int, says: str
) -> None:
    """Entry 2 of one clone under entry 3 of the other does not verify; all of one clone does."""
    one, two = clone(origin, git, "one"), clone(origin, git, "two")
    register_again(one, git, "one")
    register_again(one, git, "another of one")
    register_again(two, git, "two")
    with pytest.raises(subprocess.CalledProcessError):
        git(two, "pull", "--quiet", "--no-rebase", str(one), "main")
    git(two, "checkout", "--quiet", side, "--", "data/ledger/main")
    commit(two, git)
    assert len(read_chain(branch_path(two, "main")).leaves) == 4
    assert main(["verify", "--root", str(two)]) == code
    assert says in capsys.readouterr().out


def test_a_merge_that_keeps_both_sides_of_every_line_does_not_verify(
    origin: Path, git: Git, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attributes that make git join both entries without a conflict leave bytes that are no entry."""
    (origin / ".gitattributes").write_text("* merge=union\n")
    commit(origin, git)
    one, two = clone(origin, git, "one"), clone(origin, git, "two")
    register_again(one, git, "one")
    register_again(two, git, "two")
    git(two, "pull", "--quiet", "--no-rebase", str(one), "main")
    assert main(["verify", "--root", str(two)]) == 4
    assert "bad_json #2" in capsys.readouterr().out
