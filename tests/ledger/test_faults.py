"""Every system call of one append, failing with EIO or killed: nothing is lost and nothing is half there.

``strace`` injects the faults from outside, so that they hit what the kernel sees, not what the code calls.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger import folders
from ledger.branches import branch_path, create_branch
from ledger.chain import read_chain
from ledger.registration import register
from ledger.store import Ledger
from ledger.verify import verify

# One process imports everything once and forks a child for each fault. The child waits on a signal, which is
# no file system call, until strace is attached. PR_SET_PTRACER lets a process that is not its parent attach.
SERVER = """
import ctypes, json, os, signal, sys
from pathlib import Path
from ledger.errors import LedgerError
from ledger.store import Ledger

def append(ledger):
    try:
        ledger.append("register", body)
    except LedgerError as refusal:
        os.write(1, f"{refusal}\\n".encode())
        return 3
    return 0

body = json.loads(sys.argv[1])
append(Ledger.open(Path(sys.argv[2])))  # so that nothing is imported later
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
for line in sys.stdin:
    if (child := os.fork()) == 0:
        ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)
        ledger = Ledger.open(Path(line.strip()))
        os.write(1, f"{os.getpid()}\\n".encode())
        signal.sigwait({signal.SIGUSR1})
        os._exit(append(ledger))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"ended {code}", flush=True)
"""
MEMORY = {"mmap", "munmap", "mprotect"}


@dataclass(frozen=True)
class Ended:
    """How one append ended: the child's exit code, what it said, and what strace wrote."""

    code: int
    said: tuple[str, ...]
    trace: str


class Faults:
    """Appends under strace; every one works on its own copy of a prepared project."""

    def __init__(self, project: Path, folder: Path) -> None:
        self.project, self.folder = project, folder
        self.copies = 0
        first = read_chain(branch_path(project, "main")).entries[1].body or {}
        body = json.dumps({key: first[key] for key in first if key not in ("origin", "time")})
        shutil.copytree(project, folder / "warm")
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER, body, str(branch_path(folder / "warm", "main"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )  # fmt: skip

    def append(self, *options: str) -> tuple[Path, Ended]:
        """Append one entry to a fresh copy under ``strace`` with ``options``; returns the copy's root."""
        self.copies += 1
        root = self.folder / str(self.copies)
        shutil.copytree(self.project, root)
        self._say(str(branch_path(root, "main")))
        pid, log = int(self._hear()), self.folder / "trace"
        command = ["strace", "-o", str(log), *options, "-p", str(pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            began = tracer.stderr.readline() if tracer.stderr else ""
            os.kill(pid, signal.SIGUSR1)
            said = [self._hear()]
            while not said[-1].startswith("ended "):
                said.append(self._hear())
        if "attached" not in began:
            pytest.skip(f"strace may not attach to a process here ({began.strip()})")
        return root, Ended(int(said[-1].split()[1]), tuple(said[:-1]), log.read_text())

    def _say(self, line: str) -> None:
        assert self.server.stdin
        self.server.stdin.write(f"{line}\n")
        self.server.stdin.flush()

    def _hear(self) -> str:
        assert self.server.stdout
        line = self.server.stdout.readline()
        assert line, f"the process that appends ended with {self.server.wait()}"
        return line.rstrip("\n")

    def close(self) -> None:
        """End the server."""
        self.server.communicate()


@pytest.fixture(params=["settled", "unsettled"])
def faults(request: pytest.FixtureRequest, project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Faults]:
    """A project with a registration; ``unsettled`` as if the process that wrote it had died right after the link."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed, and nothing else here injects faults into system calls")
    ledger = create_branch(project, "main")
    entry, _ = register(project, ledger, project / "workflow/claims/demo.yaml")
    if request.param == "unsettled":
        commit = entry.header["body_commit"]
        for folder, final in ((folders.BODIES, folders.body_path), (folders.SALTS, folders.salt_path)):
            final(ledger.path, entry.seq).rename(folders.staged_path(ledger.path, folder, commit))
    started = Faults(project, tmp_path_factory.mktemp("faults"))
    yield started
    started.close()


def calls_of_an_append(faults: Faults) -> list[tuple[str, int]]:
    """(system call, which one of that name) for every file system call of an append without faults."""
    _, ended = faults.append("-e", "trace=%file,%desc")
    assert ended.code == 0, ended
    names = [line.split("(")[0] for line in ended.trace.splitlines() if "(" in line]
    counts = Counter(name for name in names if name not in MEMORY)
    return [(name, number) for name, count in sorted(counts.items()) for number in range(1, count + 1)]


def check_and_append_again(root: Path, ended: Ended) -> None:
    """The project verifies with n or n+1 entries, n+1 after a success, and one more append works."""
    report = verify(root)
    assert report.ok, report.text()
    chain = read_chain(branch_path(root, "main"))
    assert all(entry.body is not None for entry in chain.entries)
    assert len(chain.entries) in ((3,) if ended.code == 0 else (2, 3))
    ledger = Ledger.open(chain.path)
    body = chain.entries[1].body or {}
    ledger.append("register", {key: body[key] for key in body if key not in ("origin", "time")})
    report = verify(root)
    assert report.ok, report.text()
    assert report.branches[0].size == len(chain.entries) + 1
    for folder in folders.FOLDERS:
        assert folders.listing(chain.path, folder).numbers == set(range(len(chain.entries) + 1))


def test_an_input_or_output_error_at_any_system_call_loses_nothing(faults: Faults) -> None:
    """EIO at the nth call, for every n: one sentence or success, and a ledger that verifies and goes on."""
    refused = 0
    for call, number in calls_of_an_append(faults):
        root, ended = faults.append("-e", f"inject={call}:error=EIO:when={number}")
        assert ended.trace.count("(INJECTED)") == 1, (call, number)
        assert ended.code in (0, 3), (call, number, ended)
        assert len(ended.said) == (ended.code == 3), (call, number, ended)
        refused += ended.code == 3
        check_and_append_again(root, ended)
        shutil.rmtree(root)
    assert refused > 50


def test_a_kill_at_any_system_call_loses_nothing(faults: Faults) -> None:
    """SIGKILL at the nth call, for every n: the ledger verifies, the entry is there or is not, and it goes on."""
    sizes = set()
    for call, number in calls_of_an_append(faults):
        root, ended = faults.append("-e", f"inject={call}:signal=KILL:when={number}")
        assert ended.code == -signal.SIGKILL, (call, number, ended)
        sizes.add(len(read_chain(branch_path(root, "main")).entries))
        check_and_append_again(root, ended)
        shutil.rmtree(root)
    assert sizes == {2, 3}
