"""What the documentation shows is what happens."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from ledger.bodies import BODY_CHECKS
from ledger.cli import main, make_parser

ROOT = Path(__file__).parents[1]
FORMAT = (ROOT / "docs" / "ledger-format.md").read_text(encoding="utf-8")
ALONE = (ROOT / "docs" / "preregister.md").read_text(encoding="utf-8")


def blocks(text: str) -> list[str]:
    """Indented blocks, in order, without their indentation."""
    found: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        if line.startswith("    "):
            if not inside:
                found.append([])
            found[-1].append(line[4:])
            inside = True
        elif line.strip():
            inside = False
        elif inside:
            found[-1].append("")
    return ["\n".join(lines).rstrip("\n") + "\n" for lines in found]


@pytest.mark.skipif(
    not all(map(shutil.which, ("bash", "perl", "sha256sum"))), reason="the example by hand needs bash, perl, sha256sum"
)
def test_the_hashes_of_the_worked_example_come_out_as_printed() -> None:
    """The commands of the format page, run in the project, print what the page prints."""
    commands, printed = blocks(FORMAT.split("## Check it by hand")[1].split("## Bodies")[0])
    done = subprocess.run(["bash", "-ec", commands], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == printed
    lines = done.stdout.splitlines()
    assert f'"prev":"{lines[0]}"' == lines[1]
    assert f'"body_commit":"{lines[2].split()[0]}"' == lines[3]


def test_the_last_hash_of_the_example_is_the_root_of_two_entries() -> None:
    """The page's own tree hash agrees with the package."""
    from ledger.chain import read_chain
    from ledger.merkle import tree_root

    leaves = [bytes.fromhex(leaf) for leaf in read_chain(ROOT / "data/ledger/main").leaves[:2]]
    assert f"    {tree_root(leaves).hex()}  -\n" in FORMAT


def test_the_example_claim_can_be_registered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """The claim of the page on the ledger alone is a valid one, and the next hint names its run."""
    claim = next(block for block in blocks(ALONE) if block.startswith("# claim.yaml"))
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a.yaml").write_text("lr: 0.1\n")
    (tmp_path / "claim.yaml").write_text(claim)
    monkeypatch.chdir(tmp_path)
    assert main(["init"]) == 0
    assert main(["register", "claim.yaml"]) == 0
    assert "next: ledger run steps/train -- COMMAND" in capsys.readouterr().out
    assert main(["verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"]


def test_the_format_page_names_every_kind_and_every_code() -> None:
    """No kind of entry and no code of a finding is missing from the page."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "ledger").rglob("*.py")))
    assert [kind for kind in BODY_CHECKS if f"`{kind}`" not in FORMAT] == []
    assert [code for code in codes(source) if f"`{code}`" not in FORMAT] == []


def codes(source: str) -> set[str]:
    """First arguments of calls that make findings, read from the source of what verify runs."""
    import ast

    names = {"error", "warning", "note", "level"}
    found = set()
    for call in ast.walk(ast.parse(source.replace("from __future__ import annotations", ""))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in names and call.args:
            first = call.args[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.add(first.value)
    return found


def test_every_command_of_the_pages_exists() -> None:
    """A `ledger` command that a page shows is one that the program has."""
    import re

    actions = make_parser()._subparsers
    known = set(next(iter(actions._group_actions)).choices) if actions else set()  # type: ignore[union-attr]
    pages = [path.read_text(encoding="utf-8") for path in (*(ROOT / "docs").glob("*.md"), ROOT / "README.md")]
    shown = {word for page in pages for word in re.findall(r"(?:^    |`|; )ledger ([a-z-]+)", page, re.MULTILINE)}
    assert {"run", "verify", "publish"} <= shown
    assert shown - known == set()
