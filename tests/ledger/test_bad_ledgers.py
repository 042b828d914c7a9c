"""Every way to tamper with a ledger is caught under its own name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from ledger.bodies import BODY_CHECKS
from ledger.chain import read_chain
from ledger.cli import main
from ledger.verify import verify

FOLDER = Path(__file__).parents[1] / "bad_ledgers"
CASES = sorted(path.name for path in FOLDER.glob("*_fail"))


def lay_out(case: Path, root: Path) -> None:
    """The good project that a case names with the case laid over it."""
    base = case / "base"
    shutil.copytree(FOLDER / (base.read_text().strip() if base.exists() else "good"), root)
    removed = case / "remove"
    for name in removed.read_text().splitlines() if removed.exists() else ():
        (root / name).unlink()
    for source in sorted((case / "files").rglob("*")):
        target = root / source.relative_to(case / "files")
        if source.is_symlink():
            target.unlink(missing_ok=True)
            target.symlink_to(source.readlink())
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def test_the_good_ledger_verifies() -> None:
    """The golden ledger of format version 1 verifies, with its open run as a note and nothing worse."""
    report = verify(FOLDER / "good")
    assert report.ok, report.text()
    assert {(branch.name, branch.size) for branch in report.branches} == {("main", 7), ("side", 3)}
    assert all(branch.state == "prefix intact, end not pinned" for branch in report.branches)
    # Its result files are text under a Parquet name: they verify, and can decide nothing.
    assert {item.code for branch in report.branches for item in branch.findings} == {"unreadable_results"}


def test_the_full_ledger_verifies() -> None:
    """The golden ledger with every kind of entry verifies, and says what is open and what is not checked."""
    report = verify(FOLDER / "full")
    assert report.ok, report.text()
    assert {(branch.name, branch.size) for branch in report.branches} == {("main", 17), ("side", 3)}
    found = [(branch.name, item.code, item.seq) for branch in report.branches for item in branch.findings]
    assert found == [("main", "timestamp_unchecked", None), ("main", "never_run", 16)]
    kinds = {
        entry.kind for name in ("main", "side") for entry in read_chain(FOLDER / "full/data/ledger" / name).entries
    }
    assert kinds == set(BODY_CHECKS)
    verdicts = {item.experiment: [verdict.verdict for verdict in item.verdicts] for item in report.branches[0].decided}
    assert verdicts == {"demo": ["supported", "refuted", "undecided"], "later": ["deviated"] * 3}


def test_every_kind_of_entry_can_be_listed_and_shown(capsys) -> None:
    """One line each, and a page each; nothing is written."""
    root = ["--root", str(FOLDER / "full")]
    assert main(["log", *root, "--branch", "main"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 + 17
    for seq in range(17):
        assert main(["show", *root, str(seq)]) == 0
        assert f"entry       #{seq}  " in capsys.readouterr().out


@pytest.mark.parametrize("case", CASES)
def test_a_bad_ledger_is_refused_with_its_code(case: str, tmp_path: Path, capsys, monkeypatch) -> None:
    """Verification names the broken rule and ends with the exit code of its group."""
    code, exit_code = (FOLDER / case / "expected").read_text().split()
    lay_out(FOLDER / case, tmp_path / "root")
    monkeypatch.chdir(tmp_path / "root")
    given = FOLDER / case / "arguments"
    assert main(["verify", "--json", *(given.read_text().split() if given.exists() else ())]) == int(exit_code)
    report = json.loads(capsys.readouterr().out)
    found = [item for branch in report["branches"] for item in branch["findings"]] + report["findings"]
    assert code in {item["code"] for item in found if item["level"] == "error"}
    assert not report["ok"]


def test_there_is_a_case_for_every_kind_of_tampering(bad_ledgers) -> None:
    """The folders on the disk are the ones the builder describes."""
    assert {f"{name}_fail" for name in (*bad_ledgers.CASES, *bad_ledgers.FULL_CASES)} == set(CASES)
    assert not bad_ledgers.CASES.keys() & bad_ledgers.FULL_CASES.keys()
