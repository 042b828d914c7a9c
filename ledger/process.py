"""Running a command to its end: passing on the signals that ask for a stop, and saying how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    ``message`` is empty when it ended well, else a sentence; ``exit_code`` is what a shell would show: the
    command's own, or 128 + n for signal n.
    """

    message: str
    exit_code: int


class Signals:
    """The signals that arrived, passed on to the process group of a command once it is there."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.group: int | None = None

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler: remember the signal and pass it on."""
        self.received.append(number)
        self._pass_on(number)

    def start(self, group: int) -> None:
        """The command is there: pass on what arrived before, and from now on everything."""
        self.group = group
        for number in self.received:
            self._pass_on(number)

    def _pass_on(self, number: int) -> None:
        if self.group is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, number)


@contextlib.contextmanager
def passing_signals() -> Iterator[Signals]:
    """SIGINT, SIGTERM and SIGHUP go to the command while the block runs; ignored ones stay ignored (nohup)."""
    signals, before = Signals(), {}
    if threading.current_thread() is threading.main_thread():
        for number in _STOPPING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, signals.handle)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_process(
    command: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    signals: Signals,
    keep_open: int,
    started: Callable[[int], None],
) -> Ended:
    """Execute a command without a shell and wait for it; ``started`` is told its process id.

    It has a process group of its own, so that a Ctrl-C at the terminal reaches it once, by way of ``signals``.
    As it may then not read from a terminal, its input is empty there. The descriptor ``keep_open`` stays open in
    it. Standard output and error are those of this process.
    """
    if signals.received:
        name = signal.Signals(signals.received[0]).name
        return Ended(f"{name} arrived before the command began", 128 + signals.received[0])
    sys.stdout.flush()
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL if _at_terminal() else None,
            process_group=0,
            pass_fds=(keep_open,),
        )
    except OSError as failure:
        return Ended(f"the command could not be executed ({failure.strerror})", 126)
    signals.start(process.pid)
    started(process.pid)
    return _ended(process.wait(), tuple(signals.received))


def _at_terminal() -> bool:
    try:
        return os.isatty(0)
    except OSError:
        return False


def _ended(code: int, received: Sequence[int]) -> Ended:
    """In words; a command that was asked to stop and then ended with 0 has not ended well."""
    asked = f" after {signal.Signals(received[0]).name} was passed on to it" if received else ""
    if code < 0:
        return Ended(f"the command was stopped by signal {-code} ({signal_name(-code)}){asked}", 128 - code)
    if code > 0 or asked:
        return Ended(f"the command ended with exit code {code}{asked}", code or 128 + received[0])
    return Ended("", 0)


def signal_name(number: int) -> str:
    """``SIGKILL`` for 9; real-time signals have no name of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"real-time signal {number}"
