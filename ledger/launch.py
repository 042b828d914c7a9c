"""The launch gate: no lease, no registration or a drifted config means no run; a run leaves two entries.

    registration = find_registration(root, ["local", "main"], Path("workflow/claims/x.yaml"))
    with launch(root, "local", registration, "fit", "split 19") as attempt:
        ...work...
        attempt.finish(outputs=["fit/fit_layers.parquet"], base=results)

``start`` is on the disk before the block begins. ``result`` is appended by ``finish``, or, with status
``failed``, when the block ends in any other way that the process survives. ``open_attempt`` is the same without
the demand that the block ends with a result.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ledger.branches import open_for_writing
from ledger.entry import Entry
from ledger.errors import LedgerError, UsageError
from ledger.files import hash_file, inside, relative_to
from ledger.lease import Lease, lease
from ledger.registration import Registration, check_allowed, find_registration, recheck, require_standing
from ledger.seeds import run_seed
from ledger.store import Ledger

__all__ = ["Attempt", "Registration", "check_allowed", "find_registration", "launch", "open_attempt", "result_body"]

_MESSAGE_LIMIT = 2000


class Attempt:
    """One running attempt. ``start`` and ``result`` are its entries, ``seed`` its recorded seed."""

    def __init__(self, ledger: Ledger, branch: str, registration: Registration, start: Entry, held: Lease) -> None:
        self.ledger = ledger
        self.lease = held
        self.branch = branch
        self.registration = registration
        self.start = start
        self.result: Entry | None = None

    @property
    def seed(self) -> int:
        """The 63-bit seed of this run, derived from the registration and recorded in ``start``."""
        return int((self.start.body or {})["seed"])

    def finish(self, outputs: Sequence[Path | str], base: Path, published: Sequence[Path | str] = ()) -> Entry:
        """Hash the outputs and append ``result`` with status ok.

        ``outputs`` are files below ``base``, relative to it or absolute; ``published`` names those among
        them that go into the repository with the ledger. UsageError for a missing file, one outside
        ``base``, one named twice, or a second call.
        """
        if self.result is not None:
            raise UsageError("this attempt has its result entry already")
        shown = {_below(base, path) for path in published}
        rows: dict[str, dict[str, Any]] = {}
        for path in outputs:
            name = _below(base, path)
            if name in rows:
                raise UsageError(f"found the output {name} twice, expected every file once")
            digest, size = _hash_input(inside(base, name))
            rows[name] = {"path": name, "sha256": digest, "bytes": size, "published": name in shown}
        if shown - rows.keys():
            raise UsageError(f"found {sorted(shown - rows.keys())[0]} as published, but it is no output")
        return self.close("ok", "", [rows[name] for name in sorted(rows)])

    def fail(self, message: str) -> Entry:
        """Append ``result`` with status failed and a message."""
        return self.close("failed", message, [])

    def close(self, status: str, message: str, outputs: Sequence[Mapping[str, Any]]) -> Entry:
        """Append ``result`` with outputs that are hashed already: path, sha256, bytes, published."""
        self.result = self.ledger.append("result", result_body(self.start, status, message, outputs))
        return self.result


def result_body(start: Entry, status: str, message: str, outputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The body of a ``result`` entry; a long message is cut, and what is no Unicode in it becomes ``?``."""
    readable = message.encode("utf-8", "replace").decode("utf-8")[:_MESSAGE_LIMIT]
    pointer = {"seq": start.seq, "leaf": start.leaf}
    return {"start": pointer, "status": status, "message": readable, "outputs": list(outputs)}


@contextlib.contextmanager
def launch(
    root: Path,
    branch: str,
    registration: Registration,
    run_id: str,
    label: str = "",
    *,
    overrides: Mapping[str, str] | None = None,
    inputs: Sequence[Path | str] = (),
) -> Iterator[Attempt]:
    """Open an attempt of one run of a registered claim, and close it with the block.

    Raises what ``open_attempt`` raises, before anything is appended. A block that ends without ``finish`` has
    failed, as has one that SIGTERM ends.
    """
    opening = open_attempt(root, branch, registration, run_id, label, overrides=overrides, inputs=inputs)
    with _terminable(), opening as attempt:
        yield attempt
        if attempt.result is None:
            raise LedgerError(f"the run {run_id} ended without naming its outputs; call finish()")


@contextlib.contextmanager
def open_attempt(
    root: Path,
    branch: str,
    registration: Registration,
    run_id: str,
    label: str = "",
    *,
    overrides: Mapping[str, str] | None = None,
    inputs: Sequence[Path | str] = (),
) -> Iterator[Attempt]:
    """Take the lease of a run, check its registration once more and append ``start``.

    Raises Busy, Unregistered, Drifted, Voided, Overdue, NotInClaim or BrokenLedger before anything is appended.
    Inputs are hashed into ``start``; one that lies outside ``root`` is recorded by its file name only. An
    exception that ends the block appends a failed ``result`` and goes on; a block that ends well appends nothing.
    """
    settings = dict(overrides or {})
    with lease(root, registration.claim.experiment, run_id, label) as held:
        recheck(root, registration)
        check_allowed(registration, run_id, settings)
        ledger = open_for_writing(root, branch)
        body = _start_body(root, registration, run_id, label, overrides=settings, inputs=inputs)
        # A registration of another branch has no order to this one's entries.
        own = registration.origin == ledger.origin
        start = ledger.append("start", body, partial(require_standing, registration) if own else None)
        attempt = Attempt(ledger, branch, registration, start, held)
        try:
            held.describe(start=attempt.start.leaf)
            yield attempt
        except BaseException as failure:
            _record_failure(attempt, failure)
            raise


def _record_failure(attempt: Attempt, failure: BaseException) -> None:
    """Close an attempt that failed; what stopped the run stays the error that is raised."""
    if attempt.result is not None:
        return
    try:
        attempt.fail(f"{type(failure).__name__}: {failure}")
    except LedgerError as second:
        failure.add_note(f"and its result entry could not be written: {second}")


def _start_body(
    root: Path,
    registration: Registration,
    run_id: str,
    label: str,
    *,
    overrides: Mapping[str, str],
    inputs: Sequence[Path | str],
) -> dict[str, Any]:
    run = registration.claim.run(run_id)
    configs = sorted(set(run.configs)) if run else []
    return {
        "registration": {
            "origin": registration.origin,
            "seq": registration.seq,
            "leaf": registration.leaf,
        },
        "experiment": registration.claim.experiment,
        "run": run_id,
        "label": label,
        "seed": str(run_seed(registration.leaf, f"{run_id}/{label}")),
        "configs": [{"path": path, "sha256": registration.configs[path]} for path in configs],
        "overrides": dict(overrides),
        "inputs": [_input(root, root / path) for path in inputs],
        "git": _git(root),
    }


def _input(root: Path, path: Path) -> dict[str, Any]:
    digest, size = _hash_input(path)
    return {"path": relative_to(root, path) or path.name, "sha256": digest, "bytes": size}


def _hash_input(path: Path) -> tuple[str, int]:
    try:
        return hash_file(path)
    except OSError as failure:
        raise UsageError(f"the file {path} cannot be read ({failure.strerror}); it must exist now") from None


def _below(base: Path, path: Path | str) -> str:
    name = relative_to(base, base / path)
    if name is None or name == ".":
        raise UsageError(f"found the output {path}, expected a file below {base}")
    return name


def _git(root: Path) -> dict[str, Any] | None:
    """Commit and whether tracked files differ from it; None outside a repository or without git."""
    answers = []
    for command in (["rev-parse", "--verify", "HEAD"], ["status", "--porcelain", "--untracked-files=no"]):
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *command], capture_output=True, text=True, timeout=60, check=True
            )
        except (OSError, subprocess.SubprocessError):
            return None
        answers.append(done.stdout.strip())
    return {"commit": answers[0], "dirty": bool(answers[1])}


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Let SIGTERM end the block like an exception, so that a stopped run still gets its result entry."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    ):
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
