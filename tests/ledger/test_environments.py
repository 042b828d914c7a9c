"""Time zones, locales and UTF-8 mode: none of them reaches the bytes of an entry."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ledger.branches import branch_path
from ledger.canonical import canonical
from ledger.chain import read_chain
from ledger.cli import main

# The last zone needs no time zone database; the last two locales disagree with others about letters and numbers.
ZONES = ["UTC", "Asia/Kolkata", "America/St_Johns", "Pacific/Apia", "<+14>-14"]
PLACES = [
    *itertools.product(ZONES, ["C", "C.UTF-8"]),
    *itertools.product(["UTC"], ["tr_TR.UTF-8", "de_DE.UTF-8"]),
]
CLAIM = "workflow/claims/demo.yaml"
TITLE = "İ, ı and Größe ≥ 0"
COMMANDS = [["init", "--branch", "main", "--origin", "env/1"], ["register", CLAIM, "--branch", "main"], ["verify"]]
# Several commands in one process: starting Python is most of what a command takes.
RUNNER = """
import json, sys
from ledger.cli import main
for command in json.loads(sys.argv[1]):
    if (code := main(command)) != 0:
        sys.exit(code)
"""


def run(root: Path, commands: list[list[str]], **changes: str) -> subprocess.CompletedProcess[bytes]:
    """Run ``ledger`` commands in another process, with changes to its environment."""
    kept = {name: os.environ[name] for name in os.environ if not name.startswith(("LC_", "LANG"))}
    environment = {**kept, "PYTHONPATH": str(Path(__file__).parents[2]), **changes}
    command = [sys.executable, "-c", RUNNER, json.dumps(commands)]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, check=False)


def installed(name: str) -> bool:
    """Whether the system has the locale; C is part of every system."""
    if name == "C" or shutil.which("locale") is None:
        return name == "C"
    found = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.lower()
    return name.lower().replace("-", "") in found.replace("-", "").split()


def stable(root: Path) -> list[bytes]:
    """Every header and body as canonical bytes, without what differs between any two ledgers."""
    parts = []
    for entry in read_chain(branch_path(root, "main")).entries:
        assert entry.body is not None
        dropped = {"time", "prev", "body_commit"}
        parts += [
            canonical({key: part[key] for key in part if key not in dropped}) for part in (entry.header, entry.body)
        ]
    return parts


@pytest.fixture
def unicode_project(project: Path, claim_text: str, write: Callable[[Path, str], Path]) -> Path:
    """The small project with a title that locales disagree about."""
    write(project / CLAIM, claim_text.replace("Ridge beats identity", TITLE))
    return project


@pytest.mark.parametrize("utf8", ["0", "1"])
@pytest.mark.parametrize(("zone", "locale"), PLACES)
def test_no_environment_changes_the_bytes_of_an_entry(unicode_project: Path, zone: str, locale: str, utf8: str) -> None:
    """The same claim gives the same bytes apart from time and salt, times are UTC, and the ledger verifies."""
    if not installed(locale):
        pytest.skip(f"the locale {locale} is not installed")
    here = shutil.copytree(unicode_project, unicode_project / "here")
    for command in COMMANDS:
        assert main([*command, "--root", str(here)]) == 0
    before = datetime.now(UTC).replace(microsecond=0)
    ended = run(unicode_project, COMMANDS, TZ=zone, LC_ALL=locale, PYTHONUTF8=utf8)
    after = datetime.now(UTC)
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"ledger verified" in ended.stdout
    for entry in read_chain(branch_path(unicode_project, "main")).entries:
        assert before <= datetime.strptime(entry.time, "%Y-%m-%dT%H:%M:%S%z") <= after
    written = stable(unicode_project)
    assert written == stable(here)
    assert TITLE.encode() in written[-1]


def test_a_locale_without_unicode_still_reads_every_entry(unicode_project: Path) -> None:
    """log, show and verify print what they can in ASCII instead of ending in a traceback."""
    assert run(unicode_project, COMMANDS, PYTHONUTF8="1").returncode == 0
    ended = run(unicode_project, [["log"], ["show", "1", "--branch", "main"], ["verify"]], LC_ALL="C", PYTHONUTF8="0")
    assert ended.returncode == 0, ended.stderr.decode()
    assert b"Gr\\xf6\\xdfe" in ended.stdout


def test_a_file_name_that_the_locale_cannot_spell_is_one_sentence(unicode_project: Path, claim_text: str) -> None:
    """The refusal says what to type; nothing is written."""
    (unicode_project / CLAIM).write_text(claim_text.replace("config/demo.yaml", "config/größe.yaml"), "utf-8")
    (unicode_project / "workflow/config/größe.yaml").write_text("title: demo\n", "utf-8")
    ended = run(unicode_project, COMMANDS[1:2], LC_ALL="C", PYTHONUTF8="0")
    assert ended.returncode == 1
    assert ended.stderr.startswith(b"error: ")
    assert ended.stderr.count(b"\n") == 1
    assert b"PYTHONUTF8=1" in ended.stderr
    assert not (unicode_project / "data").exists()
    ended = run(unicode_project, COMMANDS, LC_ALL="C", PYTHONUTF8="1")
    assert ended.returncode == 0, ended.stderr.decode()
