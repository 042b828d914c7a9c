"""Processes of one checkout, found by what they run and where: to be killed, stopped and waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
LONGEST_WAIT = 300


def until(said: str, happened: Callable[[], T]) -> T:
    """Wait for something to happen, as long as a busy machine may need; returns what did."""
    end = time.monotonic() + LONGEST_WAIT
    while not (what := happened()):
        assert time.monotonic() < end, said
        time.sleep(0.01)
    return what


def running(folder: Path, words: str = "") -> list[int]:
    """Processes at work in ``folder`` whose command line holds ``words``, which no shell around them counts as."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            at_work = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
            if at_work and (entry / "cwd").resolve() == folder.resolve() and words in command:
                shell = Path(command.split(" ", 1)[0]).name in ("bash", "sh")
                found += [] if shell and words else [int(entry.name)]
    return found


def kill(pids: list[int], number: signal.Signals = signal.SIGKILL) -> int:
    """Send a signal to processes; returns how many were there to get it."""
    reached = 0
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
            reached += 1
    return reached


@contextmanager
def hearing_interrupts() -> Iterator[None]:
    """What is started meanwhile hears Ctrl-C, also where the tests themselves run in the background and do not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def started(checkout, arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A command at work in the checkout; nothing of it is left afterwards."""
    with hearing_interrupts():
        process = checkout.start(*arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # Leaving the process closes its output and waits for it, also where a test has read all of it already.
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def stopped_by(process: subprocess.Popen[str], folder: Path, victim: str, stage: str) -> bool:
    """kill -9 of the ``job`` of a stage, ``snakemake``, its ``children`` or ``everything``; False if none was left."""
    everything = running(folder)
    pids = {
        "job": running(folder, f"workflow.jobs.{stage} "),
        "snakemake": [process.pid],
        "children": [pid for pid in everything if pid != process.pid],
        "everything": everything,
    }[victim]
    return kill(pids) > 0
