"""``ledger run`` that is stopped or killed, with real processes; they wait on pipes, never on a clock."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledger.branches import open_for_writing
from ledger.cli import main
from ledger.lease import holder_of
from ledger.orphans import open_starts, orphans
from ledger.registration import register
from ledger.store import Ledger

ROOT = Path(__file__).parents[2]
CLAIM = Path("workflow/claims/demo.yaml")
WAITING = "import os, sys; open('results/demo/half', 'w').write('h'); print(os.getpid(), flush=True); sys.stdin.read()"
POLITE = (
    "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); "
    "print(os.getpid(), flush=True); sys.stdin.read()"
)


@pytest.fixture
def registered(project: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The project's local ledger with its claim registered; commands are typed in its folder."""
    monkeypatch.chdir(project)
    ledger = open_for_writing(project, "local")
    register(project, ledger, CLAIM)
    return ledger


Running = Callable[[str], tuple[subprocess.Popen[str], int]]


@pytest.fixture
def running(project: Path, registered: Ledger) -> Iterator[Running]:
    """Start ``ledger run`` of a program and return it with the program's process id, once that has the lease."""
    begun: list[subprocess.Popen[str]] = []

    def begin(code: str) -> tuple[subprocess.Popen[str], int]:
        command = [sys.executable, "-m", "ledger", "run", "demo/ruler", "--", sys.executable, "-c", code]
        process = subprocess.Popen(
            command,
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(project)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        assert eventually(lambda: holder(project).startswith(f"process {pid} on "))
        return process, pid

    yield begin
    for process in begun:
        process.kill()
        process.communicate()  # closes the pipe on which the program waits


def holder(project: Path) -> str:
    """Who has the lease of the run, in words."""
    found = holder_of(project, "demo", "ruler", "")
    return found.words if found else ""


def eventually(claim: Callable[[], bool]) -> bool:
    """Whether something becomes true within a minute."""
    deadline = time.monotonic() + 60
    while not claim() and time.monotonic() < deadline:
        time.sleep(0.01)
    return claim()


def outcome(ledger: Ledger) -> tuple[str, str, list[str]]:
    """Status, message and outputs of the last entry, which must be a result."""
    entry = ledger.entries()[-1]
    assert entry.kind == "result"
    body = entry.body or {}
    return body["status"], body["message"], [item["path"] for item in body["outputs"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_passed_on_and_the_run_has_failed(running, registered: Ledger, number: signal.Signals) -> None:
    """The command gets it, its result is recorded with what it wrote, and the exit code names the signal."""
    # Tests started in the background or under nohup ignore some signals, and what they start would inherit that.
    before = signal.signal(number, signal.default_int_handler)
    try:
        process, _ = running(WAITING)
    finally:
        signal.signal(number, before)
    process.send_signal(number)
    process.wait()
    status, message, outputs = outcome(registered)
    assert (status, outputs) == ("failed", ["half"])
    assert f"{number.name} was passed on to it" in message
    # Python turns SIGINT into an exception and then ends itself by the same signal.
    assert f"stopped by signal {int(number)} ({number.name})" in message
    assert process.returncode == 128 + number
    assert orphans(registered.path.parents[2], "local") == ()


def test_a_command_that_ends_well_when_asked_to_stop_has_not_finished(running, registered: Ledger) -> None:
    """Exit code 0 after SIGTERM is no completed run."""
    process, _ = running(POLITE)
    process.terminate()
    assert process.wait() == 128 + signal.SIGTERM
    assert outcome(registered)[:2] == (
        "failed",
        "the command ended with exit code 0 after SIGTERM was passed on to it",
    )


def test_a_command_killed_by_others_is_recorded(running, registered: Ledger) -> None:
    """Signal 9 to the command alone: ``ledger run`` goes on to say so."""
    process, command = running(WAITING)
    os.kill(command, signal.SIGKILL)
    assert process.wait() == 137
    assert outcome(registered) == ("failed", "the command was stopped by signal 9 (SIGKILL)", ["half"])


def test_an_ignored_hangup_stays_ignored(running, registered: Ledger, project: Path) -> None:
    """Under nohup neither ``ledger run`` nor its command ends with the terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process, _ = running(WAITING)
    finally:
        signal.signal(signal.SIGHUP, before)
    process.send_signal(signal.SIGHUP)
    process.communicate()
    assert process.returncode == 0
    assert outcome(registered)[:2] == ("ok", "")


def test_a_run_at_work_is_known_as_running(running, registered: Ledger, project: Path, capsys) -> None:
    """It is no orphan, and can neither be closed by hand nor started twice."""
    _, command = running(WAITING)
    (found,) = open_starts(project, registered.entries())
    assert found.entry.seq == 2
    assert found.holder is not None
    assert found.holder.words.startswith(f"process {command} on ")
    assert orphans(project, "local") == ()
    assert main(["result", "2", "--failed", "gone"]) == 10
    assert main(["run", "ruler", "--", "true"]) == 10
    assert f"process {command} on" in capsys.readouterr().err
    assert len(registered.entries()) == 3


def test_a_killed_run_is_an_orphan_once_its_command_has_ended(
    running, registered: Ledger, project: Path, capsys
) -> None:
    """SIGKILL of ``ledger run`` leaves the start; while the command still works it is busy, then an orphan."""
    process, command = running(WAITING)
    process.kill()
    process.wait()
    assert orphans(project, "local") == ()
    assert main(["run", "ruler", "--", "true"]) == 10
    assert f"process {command} on" in capsys.readouterr().err
    process.communicate()
    assert eventually(lambda: len(orphans(project, "local")) == 1)
    assert main(["run", "ruler", "--", "true"]) == 0
    assert "start #2 (demo/ruler) of 20" in (said := capsys.readouterr().err)
    assert '`ledger result 2 --failed "why"`' in said
    assert main(["result", "2", "--failed", "the power went out", "--output", "half"]) == 0
    assert outcome(registered) == ("failed", "the power went out", ["half"])
    assert orphans(project, "local") == ()
