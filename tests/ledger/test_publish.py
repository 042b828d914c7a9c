"""`ledger publish`: redacted copies that verify, grow, and never take anything back."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ledger.branches import branch_path, open_branch
from ledger.cli import main
from ledger.publishing.marker import results_left_out
from ledger.verify import verify

OUTPUT = "data/results/demo/ruler/summary.json"
CONFIG = "workflow/config/demo.yaml"


@pytest.fixture
def root(shared_ledger: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a signed checkpoint; commands are typed in its folder."""
    monkeypatch.chdir(shared_ledger)
    monkeypatch.setenv("LEDGER_KEYS", str(tmp_path_factory.mktemp("keys")))
    assert main(["key", "new", "ours"]) == 0
    assert main(["checkpoint", "--key", "ours", "--branch", "main"]) == 0
    return shared_ledger


@pytest.fixture
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place for a published folder, not there yet."""
    return tmp_path_factory.mktemp("out") / "index"


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def index(folder: Path) -> dict:
    """The first branch in index.json."""
    return json.loads((folder / "index.json").read_bytes())["branches"][0]


def test_the_whole_publication_verifies_and_holds_what_the_project_holds(root: Path, out: Path) -> None:
    """Nothing withheld: ledger, pinned files, results and checkpoints are the project's bytes; verify ends with 0."""
    assert main(["publish", str(out), "--results"]) == 0
    own = {"INDEX.md", "index.json", "SHA256SUMS", ".gitattributes"}
    published, source = files(out), files(root)
    assert {name: data for name, data in published.items() if name not in own} == {
        name: data for name, data in source.items() if ".leases" not in name
    }
    assert main(["verify", "--root", str(out)]) == 0
    assert main(["import-check", str(out)]) == 0


def test_sha256sum_checks_every_file(root: Path, out: Path) -> None:
    """The list is in the format of sha256sum and leaves out only itself."""
    assert main(["publish", str(out), "--results"]) == 0
    tool = shutil.which("sha256sum")
    if tool is None:
        pytest.skip("sha256sum is not installed")
    subprocess.run([tool, "-c", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    listed = {line.split("  ", 1)[1] for line in (out / "SHA256SUMS").read_text().splitlines()}
    assert listed == set(files(out)) - {"SHA256SUMS"}


def test_a_withheld_body_takes_its_salt_and_its_files_along(root: Path, out: Path) -> None:
    """Withholding both registrations and the result leaves their headers only, and no config, claim or output."""
    assert main(["publish", str(out), "--withhold", "1,3", "--withhold", "5-5", "--results"]) == 0
    ledger = out / "data/ledger/main"
    for folder in ("bodies", "salts"):
        assert sorted(int(path.name[:8]) for path in (ledger / folder).iterdir()) == [0, 2, 4]
    assert len(list((ledger / "entries").iterdir())) == 6
    assert not (out / "workflow").exists()
    assert not (out / OUTPUT).exists()
    text = b"".join(files(out).values())
    assert b"Ridge beats identity" not in text
    assert main(["verify", "--root", str(out)]) == 0


def test_open_registrations_are_certain_without_withheld_starts(root: Path, out: Path) -> None:
    """Registration 5 was never started and start 4 has no result, whatever registrations are withheld."""
    assert main(["publish", str(out), "--withhold-kind", "register"]) == 0
    found = {item["seq"]: (item["state"], item["maybe"]) for item in index(out)["registrations"]}
    assert found == {1: ("closed", 0), 5: ("open", 0)}
    assert {item["seq"]: item["state"] for item in index(out)["starts"]} == {2: "closed", 4: "open"}
    page = (out / "INDEX.md").read_text()
    assert "* #5: open: never started (certain)" in page
    assert "* #4: without a result (certain)" in page
    assert "* #1: start main #2, main #4" in page


def test_open_registrations_are_unknown_among_withheld_starts(root: Path, out: Path) -> None:
    """Both starts withheld come after registration 1 and before 5; the withheld result could close both of them."""
    assert main(["publish", str(out), "--withhold-kind", "start", "--withhold-kind", "result"]) == 0
    found = {item["seq"]: (item["state"], item["maybe"]) for item in index(out)["registrations"]}
    assert found == {1: ("unknown", 2), 5: ("open", 0)}
    assert {item["seq"]: (item["state"], item["maybe"]) for item in index(out)["starts"]} == {
        2: ("unknown", 1),
        4: ("open", 0),
    }
    page = (out / "INDEX.md").read_text()
    assert "* #1: no start seen; 2 withheld starts could be its own" in page
    assert "* #2: no result seen; 1 withheld result could be its own" in page


def test_publishing_again_only_adds_what_is_revealed(root: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer withheld bodies: the old files stay as they were, and the new ones are named."""
    assert main(["publish", str(out), "--withhold", "2-5", "--results"]) == 0
    before = files(out)
    capsys.readouterr()
    assert main(["publish", str(out), "--withhold", "4", "--results"]) == 0
    assert "revealed   #2, #3, #5" in capsys.readouterr().out
    after = files(out)
    changed = {name for name, data in before.items() if after.get(name) != data}
    assert changed == {"INDEX.md", "index.json", "SHA256SUMS"}
    bodies = {
        f"data/ledger/main/{place}" for n in (2, 3, 5) for place in (f"bodies/0000000{n}.json", f"salts/0000000{n}")
    }
    assert after.keys() - before.keys() == {*bodies, OUTPUT, "workflow/claims/other.yaml"}
    assert main(["import-check", str(out)]) == 0


def test_the_same_publication_twice_changes_nothing(root: Path, out: Path) -> None:
    """Nothing in a publication depends on when it was made."""
    assert main(["publish", str(out), "--results"]) == 0
    before = files(out)
    assert main(["publish", str(out)]) == 0
    assert files(out) == before


def test_a_longer_chain_another_branch_and_a_cosignature_fit_in(
    root: Path, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """New entries, a second branch and a second signature under the old checkpoint extend the index."""
    assert main(["publish", str(out), "--results"]) == 0
    assert main(["key", "new", "theirs"]) == 0
    assert main(["checkpoint", "--key", "theirs", "--branch", "main"]) == 0
    claim = root / "workflow/claims/third.yaml"
    claim.write_text(
        (root / "workflow/claims/other.yaml").read_text().replace("experiment: other", "experiment: third")
    )
    assert main(["register", str(claim), "--branch", "main"]) == 0
    assert main(["init", "--branch", "side"]) == 0
    capsys.readouterr()
    assert main(["publish", str(out)]) == 0
    assert "revealed" not in capsys.readouterr().out
    assert main(["publish", str(out), "--branch", "side"]) == 0
    branches = {item["name"]: item["size"] for item in json.loads((out / "index.json").read_bytes())["branches"]}
    assert branches == {"main": 7, "side": 1}
    assert "theirs" in (out / "data/ledger/main/checkpoints/00000006.note").read_text()
    assert main(["verify", "--root", str(out)]) == 0
    assert main(["import-check", str(out)]) == 0


def _other_entry(root: Path) -> None:
    shutil.rmtree(branch_path(root, "main"))
    assert main(["init", "--branch", "main", "--origin", "test/main"]) == 0


def _shorter(root: Path) -> None:
    for place in ("entries/00000005.json", "bodies/00000005.json", "salts/00000005"):
        (branch_path(root, "main") / place).unlink()
    shutil.rmtree(branch_path(root, "main") / "checkpoints")


def _other_note(root: Path) -> None:
    (branch_path(root, "main") / "checkpoints/00000006.note").unlink()
    assert main(["key", "new", "theirs"]) == 0
    assert main(["checkpoint", "--key", "theirs", "--branch", "main"]) == 0


@pytest.mark.parametrize(
    ("change", "arguments", "says"),
    [
        (_other_entry, [], "the ledger has not"),
        (_shorter, [], "#5 of main that the ledger has not"),
        (_other_note, [], "00000006.note is not what the ledger has"),
        (lambda root: None, ["--withhold", "1"], "published in"),
        (
            lambda root: shutil.move(branch_path(root, "main"), branch_path(root, "copy")),
            ["--branch", "copy"],
            "as branch main",
        ),
    ],
)
def test_what_contradicts_the_index_is_refused_before_anything_is_written(
    root: Path, out: Path, change: Callable[[Path], object], arguments: list[str], says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Another or shorter chain, a lost signature, a body withheld too late, the same ledger under two names."""
    assert main(["publish", str(out)]) == 0
    before = files(out)
    change(root)
    capsys.readouterr()
    assert main(["publish", str(out), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert files(out) == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--withhold", "6"], "0 to 5"),
        (["--withhold", "3-2"], "'3-2'"),
        (["--withhold", "1,,2"], "''"),
        (["--withhold-kind", "starts"], "expected one of genesis"),
    ],
)
def test_entries_that_cannot_be_meant_are_refused(
    root: Path, out: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A span beyond the ledger, backwards or empty; a kind that does not exist."""
    assert main(["publish", str(out), *arguments]) == 2
    assert says in capsys.readouterr().err
    assert list(out.parent.iterdir()) == []


def test_only_a_new_folder_or_an_index_is_written_to(root: Path, out: Path) -> None:
    """Folders with other files, files, and places among the ledgers are left alone; an empty git clone is new."""
    out.mkdir()
    (out / "mine").write_text("mine")
    assert main(["publish", str(out)]) == 2
    (out / "index.json").write_text("{}")
    assert main(["publish", str(out)]) == 2
    assert main(["publish", str(out / "mine")]) == 2
    assert main(["publish", "data/ledger/copy"]) == 2
    assert set(files(out)) == {"mine", "index.json"}
    (out.parent / "clone/.git").mkdir(parents=True)
    (out.parent / "clone/.git/HEAD").write_text("ref")
    assert main(["publish", str(out.parent / "clone")]) == 0
    assert main(["import-check", str(out.parent / "clone")]) == 0


def test_a_changed_config_is_left_out_and_said(root: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the registered bytes are copied; the index says which are missing."""
    (root / CONFIG).write_text("title: other\n")
    assert main(["publish", str(out), "--withhold", "3"]) == 0
    assert f"left out   {CONFIG} as #1, #5 pins it" in capsys.readouterr().out
    assert not (out / CONFIG).exists()
    here = {item["path"]: item["here"] for item in json.loads((out / "index.json").read_bytes())["files"]}
    assert here == {CONFIG: False, "workflow/config/model.yaml": True, "workflow/claims/demo.yaml": True,
                    "workflow/claims/other.yaml": True}  # fmt: skip
    assert main(["import-check", str(out)]) == 0
    assert f"the bytes of {CONFIG}" in capsys.readouterr().out


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_text("{ }\n")])
def test_results_are_compared_before_they_are_published(root: Path, out: Path, spoil: Callable[[Path], object]) -> None:
    """A missing or changed result file ends with 5 and leaves no folder."""
    spoil(root / OUTPUT)
    assert main(["publish", str(out), "--results"]) == 5
    assert list(out.parent.iterdir()) == []


def test_without_results_only_their_absence_is_open(root: Path, out: Path) -> None:
    """The ledger verifies; the result files that were not published are all that is missing, and the index says so."""
    assert main(["publish", str(out)]) == 0
    assert {item.code for item in verify(out).errors} <= {"output_missing"}
    assert results_left_out(out)
    assert not results_left_out(root)
    assert main(["import-check", str(out)]) == 0


def test_words_of_a_claim_cannot_break_the_page(root: Path, out: Path, claim_text: str) -> None:
    """Bars, angle brackets and control characters of a title stay in their cell."""
    claim = root / "workflow/claims/odd.yaml"
    odd = claim_text.replace("experiment: demo", "experiment: odd").replace("Ridge beats", "\\\\| <b>\\e[2J")
    claim.write_text(odd)
    assert main(["register", str(claim), "--branch", "main"]) == 0
    assert main(["publish", str(out)]) == 0
    page = (out / "INDEX.md").read_text()
    assert "\x1b" not in page
    assert "<b>" not in page
    assert len(open_branch(out, "main").entries()) == 7
