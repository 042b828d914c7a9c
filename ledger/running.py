"""``ledger run``, ``start`` and ``result``: a command as an attempt of a registered run, or one made elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.artifacts import results_folder
from ledger.branches import MAIN, open_branch
from ledger.entry import Entry
from ledger.errors import UsageError, WriteFailed
from ledger.frozen import Frozen, frozen
from ledger.launch import Attempt, open_attempt, result_body
from ledger.lease import lease
from ledger.orphans import orphan_lines, orphans
from ledger.outputs import Outputs, Seen, changed, check_patterns, hashed, matching, snapshot
from ledger.process import Ended, Signals, passing_signals, run_process
from ledger.registration import Registration, check_allowed

__all__ = ["Order", "Outcome", "close_start", "orphan_lines", "orphans", "run_command", "start_only"]


@dataclass(frozen=True)
class Order:
    """What is to be run: ``root`` is absolute, ``inputs`` are paths below it or absolute."""

    root: Path
    branch: str
    registration: Registration
    run_id: str
    label: str = ""
    overrides: Mapping[str, str] | None = None
    inputs: Sequence[Path | str] = ()

    def open(self) -> contextlib.AbstractContextManager[Attempt]:
        """The attempt, see ``open_attempt``."""
        return open_attempt(
            self.root,
            self.branch,
            self.registration,
            self.run_id,
            self.label,
            overrides=self.overrides,
            inputs=self.inputs,
        )

    @property
    def folder(self) -> Path:
        """Where outputs are looked for."""
        return results_folder(self.root, self.branch, self.registration.claim.experiment)


@dataclass(frozen=True)
class Outcome:
    """The entries of a run that ended. ``exit_code`` is the command's own, or 1 when only its outputs failed."""

    start: Entry
    result: Entry
    unchanged: int
    exit_code: int


def start_only(order: Order) -> Entry:
    """Append ``start`` for a run that is made elsewhere and closed by ``close_start``; see ``open_attempt``."""
    with order.open() as attempt:
        return attempt.start


def run_command(
    order: Order, command: Sequence[str], patterns: Sequence[str], started: Callable[[Entry], None]
) -> Outcome:
    """Run a command as an attempt of a registered run; it leaves ``start`` and ``result`` however it ends.

    The command reads private copies of what is pinned, in the place of each word that names a pinned file, and
    finds the rest in its environment. Its outputs are the files below the results folder that match ``patterns``,
    or, without any, those that are new or changed. ``started`` is called with the ``start`` entry. Raises what
    ``open_attempt`` does, and UsageError for a command or pattern that cannot be, before anything is appended.
    """
    check_allowed(order.registration, order.run_id, order.overrides or {})
    check_patterns(patterns)
    settings = _settings(order.overrides or {})
    with passing_signals() as signals, frozen(order.root, order.registration) as copies:
        words = _executable(order.root, command, copies)
        with _made(order.folder), order.open() as attempt:
            before = snapshot(order.folder)
            started(attempt.start)
            environment = {**_environment(order, attempt, copies), **settings}
            ended = _run(attempt, words, order.root, environment, signals)
            return _record(order, attempt, ended, patterns, before)


def _run(attempt: Attempt, words: Sequence[str], root: Path, environment: Mapping[str, str], signals: Signals) -> Ended:
    def note(pid: int) -> None:
        with contextlib.suppress(OSError):  # only words: the lock is held whether or not they can be written
            attempt.lease.describe(attempt.start.leaf, pid)

    return run_process(words, root, environment, signals=signals, keep_open=attempt.lease.descriptor, started=note)


def _record(order: Order, attempt: Attempt, ended: Ended, patterns: Sequence[str], before: Seen) -> Outcome:
    """Append ``result``; a command that ended well has still failed when its outputs cannot be recorded."""
    after = snapshot(order.folder)
    fresh = changed(before, after)
    named, idle = matching(patterns, after) if patterns else (fresh, ())
    found = hashed(order.folder, named, order.branch == MAIN, idle)
    message = "; ".join([*([ended.message] if ended.message else []), *found.problems])
    result = attempt.close("failed" if message else "ok", message, found.rows)
    unchanged = len({row["path"] for row in found.rows} - set(fresh))
    return Outcome(attempt.start, result, unchanged, ended.exit_code or (1 if message else 0))


def _environment(order: Order, attempt: Attempt, copies: Frozen) -> dict[str, str]:
    """The environment of the command; settings of a run that this one is part of are not passed on."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("LEDGER_SET_")}
    return {
        **kept,
        "LEDGER_CONFIGS": str(copies.folder),
        "LEDGER_EXPERIMENT": order.registration.claim.experiment,
        "LEDGER_LABEL": order.label,
        "LEDGER_OUTPUTS": str(order.folder),
        "LEDGER_RUN": order.run_id,
        "LEDGER_SEED": str(attempt.seed),
        "LEDGER_START": str(attempt.start.seq),
    }


def _settings(overrides: Mapping[str, str]) -> dict[str, str]:
    """``dtype`` as ``LEDGER_SET_DTYPE``; other signs than letters and digits become ``_``."""
    names = {key: "LEDGER_SET_" + re.sub("[^A-Z0-9]", "_", key.upper()) for key in overrides}
    for name in names.values():
        same = [key for key in names if names[key] == name]
        if len(same) > 1:
            raise UsageError(f"found the settings {' and '.join(same)}, which are both {name}; set one of them")
    return {names[key]: value for key, value in overrides.items()}


def _executable(root: Path, command: Sequence[str], copies: Frozen) -> tuple[str, ...]:
    """The command on the copies, with the path of its program; UsageError when it cannot be executed."""
    if not command:
        raise UsageError("found no command, expected it behind --, as in `ledger run RUN -- python train.py`")
    name, *rest = copies.command(command)
    found = shutil.which(os.path.join(root, name) if os.sep in name else name)
    if found is None:
        raise UsageError(
            f"the command {command[0]!r} is not found or not executable, so nothing was started; a program in the "
            "project is named by its path from the project's folder, like ./train.sh"
        )
    return (os.path.abspath(found), *rest)


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder is there while the block runs; it is gone again when it is new and nothing was put there."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise WriteFailed(f"cannot create the results folder {folder} ({failure.strerror})") from None
    try:
        yield
    finally:
        if new:
            with contextlib.suppress(OSError):
                folder.rmdir()


def close_start(root: Path, branch: str, seq: int, failed: str | None, patterns: Sequence[str]) -> Entry:
    """Append the ``result`` of start ``seq``: ok, or failed for a reason, with the outputs that match ``patterns``.

    UsageError when there is no such start, when it has its result, for a pattern that matches nothing and for an
    empty reason; Busy while the run is at work here.
    """
    if failed is not None and not failed.strip():
        raise UsageError('found no reason, expected one like --failed "the power went out"; it stays in the ledger')
    check_patterns(patterns)
    body = _open_start(root, branch, seq).body or {}
    with lease(root, body["experiment"], body["run"], body["label"]):
        start = _open_start(root, branch, seq)  # again: it may have been closed before the lease was had
        folder = results_folder(root, branch, body["experiment"])
        found = _named(folder, patterns, branch == MAIN)
        status = "ok" if failed is None else "failed"
        return open_branch(root, branch).append("result", result_body(start, status, failed or "", found.rows))


def _named(folder: Path, patterns: Sequence[str], published: bool) -> Outputs:
    """The outputs that match; UsageError for the first thing wrong with them."""
    named, idle = matching(patterns, snapshot(folder) if patterns else ())
    found = hashed(folder, named, published, idle)
    if found.problems:
        raise UsageError(f"{found.problems[0]}; nothing was recorded, so correct --output and type it again")
    return found


def _open_start(root: Path, branch: str, seq: int) -> Entry:
    entries = open_branch(root, branch).entries()
    start = entries[seq] if 0 <= seq < len(entries) else None
    if start is None or start.kind != "start":
        what = f"is a {start.kind} entry" if start else "does not exist"
        raise UsageError(f"#{seq} of branch {branch} {what}, expected a start; `ledger status` lists the open ones")
    if start.body is None:
        raise UsageError(f"the body of start #{seq} is withheld here; close it where it is kept")
    for entry in entries[seq:]:
        if entry.kind == "result" and (entry.body or {}).get("start", {}).get("seq") == seq:
            raise UsageError(f"start #{seq} of branch {branch} has its result #{entry.seq} already")
    return start
