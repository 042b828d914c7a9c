"""The store: durable appends, many writers, crashes at every step."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger import folders
from ledger.chain import read_chain
from ledger.errors import BrokenLedger, FormatError, NoLedger, UsageError, WriteFailed
from ledger.store import Ledger

REGISTER = {
    "experiment": "x",
    "claim": {"predictions": [1]},
    "claim_file": {"path": "c.yaml", "sha256": "0" * 64},
    "configs": [],
}
START = {
    "registration": {"origin": "t", "seq": 1, "leaf": "0" * 64},
    "experiment": "x",
    "run": "r",
    "label": "",
    "seed": "1",
    "configs": [],
    "overrides": {},
    "inputs": [],
    "git": None,
}
RESULT = {"start": {"seq": 1, "leaf": "0" * 64}, "status": "ok", "message": "", "outputs": []}
WRITER = """
import sys
from pathlib import Path
from ledger.store import Ledger
ledger = Ledger.open(Path(sys.argv[1]))
for number in range(int(sys.argv[3])):
    body = {"start": {"seq": 1, "leaf": "0" * 64}, "status": "failed", "outputs": []}
    ledger.append("result", body | {"message": f"{sys.argv[2]}/{number}"})
"""
CRASHER = """
import os, sys
from pathlib import Path
from ledger.store import Ledger
ledger, at, calls = Ledger.open(Path(sys.argv[1])), int(sys.argv[2]), 0
def dying(real):
    def call(*args, **kwargs):
        global calls
        calls += 1
        if calls == at:
            os._exit(9)
        return real(*args, **kwargs)
    return call
for name in ("open", "fsync", "link", "replace", "unlink", "close", "listdir"):
    setattr(os, name, dying(getattr(os, name)))
start = {"seq": 1, "leaf": "0" * 64}
ledger.append("result", {"start": start, "status": "ok", "message": "m", "outputs": []})
print(calls)
"""


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """A ledger with its genesis entry."""
    return Ledger.init(tmp_path / "book", "test/1", "a test")


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in another process that can import the package under test."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.run(
        [sys.executable, "-c", *arguments], env=environment, capture_output=True, text=True, check=False
    )


def test_append_returns_what_is_read_back(ledger: Ledger) -> None:
    """The returned entry equals the stored one, and its leaf is the next entry's prev."""
    first = ledger.append("register", REGISTER)
    second = ledger.append("start", START)
    entries = ledger.entries()
    assert [entry.kind for entry in entries] == ["genesis", "register", "start"]
    assert entries[1:] == (first, second)
    assert second.header["prev"] == first.leaf
    assert first.header["grade"] == "confirmatory"


def test_no_temporary_file_stays_after_an_append(ledger: Ledger) -> None:
    """A completed append leaves exactly one file in each folder per entry."""
    ledger.append("result", RESULT)
    for folder in folders.FOLDERS:
        assert folders.listing(ledger.path, folder).temporary == ()
        assert folders.listing(ledger.path, folder).numbers == {0, 1}


def test_equal_bodies_have_different_commitments(ledger: Ledger) -> None:
    """Fresh salts: two equal bodies cannot be recognised by their commitments."""
    one, two = ledger.append("result", RESULT), ledger.append("result", RESULT)
    assert one.header["body_commit"] != two.header["body_commit"]


@pytest.mark.parametrize("kind", ["voided", "amends", "genesis", "fork", "Start", ""])
def test_kinds_that_cannot_be_appended_are_refused(ledger: Ledger, kind: str) -> None:
    """Unknown kinds, and kinds that only open a ledger, are refused before anything is written."""
    with pytest.raises(UsageError):
        ledger.append(kind, {})
    assert len(ledger.entries()) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({**RESULT, "extra": 1}, "unknown_field"),
        ({key: RESULT[key] for key in RESULT if key != "status"}, "missing_field"),
        ({**RESULT, "status": "great"}, "bad_value"),
        ({**RESULT, "start": {"seq": 1.0, "leaf": "0" * 64}}, "bad_value"),
        (
            {**RESULT, "outputs": [{"path": "../x", "sha256": "0" * 64, "bytes": 1, "published": True}]},
            "path_outside",
        ),
    ],
)
def test_bodies_outside_the_format_are_never_written(ledger: Ledger, body: dict, code: str) -> None:
    """A body is checked before any file is created."""
    with pytest.raises(FormatError) as refusal:
        ledger.append("result", body)
    assert refusal.value.code == code
    assert len(list(ledger.path.rglob("*.*"))) == 3  # the genesis header, its body, .gitattributes


def test_opening_nothing_and_opening_twice_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    """open() needs a ledger; init() needs none."""
    with pytest.raises(NoLedger, match="ledger init"):
        Ledger.open(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="already"):
        Ledger.init(ledger.path, "test/2")
    assert Ledger.open(ledger.path).origin == "test/1"


def test_a_refused_first_entry_leaves_nothing_behind(tmp_path: Path) -> None:
    """A title or origin that cannot be stored opens no folder that would later look like a broken ledger."""
    for origin, title in (("test/1", "\ud800"), ("no spaces", "")):
        with pytest.raises(FormatError):
            Ledger.init(tmp_path / "book", origin, title)
        assert not (tmp_path / "book").exists()


def test_appending_to_a_ledger_with_a_gap_is_refused(ledger: Ledger) -> None:
    """Nothing is appended after a removed entry."""
    ledger.append("result", RESULT)
    ledger.append("result", RESULT)
    folders.entry_path(ledger.path, 1).unlink()
    with pytest.raises(BrokenLedger):
        ledger.append("result", RESULT)


def test_fork_names_the_checkpoint_it_stands_on(ledger: Ledger, tmp_path: Path) -> None:
    """A fork starts at number 0 with its own origin and the parent's checkpoint text."""
    branch = Ledger.fork(tmp_path / "branch", "test/branch", ledger)
    (first,) = branch.entries()
    assert first.kind == "fork"
    assert first.body is not None
    assert first.body["checkpoint"] == ledger.checkpoint().text()


def test_processes_appending_at_once_make_one_linear_chain(ledger: Ledger) -> None:
    """8 processes x 100 appends: no gap, no duplicate, nothing lost, the chain verifies."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    command = [sys.executable, "-c", WRITER, str(ledger.path)]
    writers = [subprocess.Popen([*command, str(n), "100"], env=environment) for n in range(8)]
    assert [writer.wait() for writer in writers] == [0] * 8
    chain = read_chain(ledger.path)
    assert chain.findings == ()
    messages = [entry.body["message"] for entry in chain.entries[1:] if entry.body]
    assert sorted(messages) == sorted(f"{n}/{m}" for n in range(8) for m in range(100))


def test_reading_while_others_append_sees_a_sound_prefix(ledger: Ledger) -> None:
    """A reader beside a writer never reports an error: entries appear whole or not at all."""
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(ledger.path), "w", "40"], env=environment)
    while writer.poll() is None:
        assert read_chain(ledger.path).sound
    assert writer.returncode == 0
    assert len(ledger.entries()) == 41


def test_a_kill_at_any_step_loses_nothing_and_leaves_nothing_half_there(tmp_path: Path) -> None:
    """Killed at the nth file system call, for every n: the chain is sound, and appending goes on."""
    done, at = False, 0
    while not done:
        at += 1
        ledger = Ledger.init(tmp_path / str(at), "test/1")
        ended = run_python(CRASHER, str(ledger.path), str(at))
        assert ended.returncode in (0, 9), ended.stderr
        done = ended.returncode == 0
        chain = read_chain(ledger.path)
        assert chain.sound, chain.findings
        assert all(entry.body is not None for entry in chain.entries)
        before = len(chain.entries)
        ledger.append("result", RESULT)
        entries = ledger.entries()
        assert len(entries) == before + 1
        assert folders.listing(ledger.path, folders.BODIES).numbers == set(range(before + 1))
        assert folders.listing(ledger.path, folders.SALTS).numbers == set(range(before + 1))
    assert at > 15


@pytest.mark.parametrize("call", ["fsync", "link", "replace", "open"])
def test_a_refused_write_is_one_sentence_and_nothing_half_there(
    ledger: Ledger, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk at any call of an append gives WriteFailed and a ledger that still verifies."""
    real = getattr(os, call)
    for at in range(1, 5):
        calls = 0

        def failing(*args, at=at, **kwargs):
            nonlocal calls
            calls += 1
            if calls == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*args, **kwargs)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                ledger.append("result", RESULT)
            except WriteFailed as refusal:
                assert "No space left" in str(refusal)  # noqa: PT017
        assert read_chain(ledger.path).sound
    ledger.append("result", RESULT)
    assert all(entry.body is not None for entry in ledger.entries())
