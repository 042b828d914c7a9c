"""An attempt that several jobs work under: one job opens it, shards see that it is open, the last job closes it.

The ledger holds what it always does, one ``start`` and one ``result``; ``attempt.json`` says which start it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ledger.branches import branch_names, open_branch
from ledger.entry import Entry
from ledger.errors import Busy, LaunchRefused, LedgerError
from ledger.launch import Attempt
from ledger.lease import holder_of, lease
from ledger.orphans import open_starts
from ledger.running import Order, close_start, start_only
from ridgefill.errors import RidgeFillError
from ridgefill.files import write_text
from workflow.gate import MOST_SHARDS
from workflow.jobs.common import Job

_GIVEN_UP = "given up: another attempt of the run was opened"


@dataclass(frozen=True)
class Opened:
    """Which start it is, and the fingerprint of everything that finished items depend on when it was opened."""

    branch: str
    seq: int
    leaf: str
    fingerprint: str


def shards_folder(job: Job, run: str) -> Path:
    """Where the shards of a run leave word of what they did; gone once the run has its result."""
    return job.out / run / "shards"


def _attempt_file(job: Job, run: str) -> Path:
    return shards_folder(job, run) / "attempt.json"


def open_run(job: Job, run: str, inputs: Sequence[Path], fingerprint: str) -> Opened:
    """Append the ``start`` of ``run`` and write ``attempt.json``; an earlier attempt left open is closed as failed.

    Raises ``Busy`` while a shard or another attempt is at work, and the ledger's other refusals.
    """
    registration = job.registration
    _require_no_shard(job, run)
    if job.branch in branch_names(job.root):
        wanted = {"experiment": registration.claim.experiment, "run": run, "label": ""}
        for one in open_starts(job.root, open_branch(job.root, job.branch).entries()):
            if wanted.items() <= (one.entry.body or {}).items():
                close_start(job.root, job.branch, one.entry.seq, _GIVEN_UP, ())
    start = start_only(Order(job.root, job.branch, registration, run, "", job.overrides, inputs))
    opened = Opened(job.branch, start.seq, start.leaf, fingerprint)
    write_text(_attempt_file(job, run), json.dumps(asdict(opened)) + "\n")
    return opened


@contextmanager
def shard_of(job: Job, run: str, number: int, fingerprint: str) -> Iterator[Opened]:
    """Hold the lease of shard ``number`` while the block runs, under the open attempt of ``run``.

    Raises ``LaunchRefused`` without one, or when it was opened for other maps, settings, model or code, and ``Busy``.
    A block that ends with an error of ours closes the attempt as failed; whatever else ends it leaves the attempt
    open, so that the shard can be made again.
    """
    experiment, path = job.registration.claim.experiment, _attempt_file(job, run)
    with lease(job.root, experiment, run, _label(number)):
        # After taking its own lease, as the whole run looks for shards after taking its: never both go on.
        holder = holder_of(job.root, experiment, run, "")
        if holder is not None:
            raise Busy(f"an attempt of {experiment} {run} is running ({holder.words}); wait for it to end, or stop it")
        opened = _read(path)
        if opened is None:
            raise LaunchRefused(
                f"a shard of {run} works under an open attempt of the run, and {path} names none; run the workflow "
                "with --config shards=NUMBER, which opens one"
            )
        if opened.fingerprint != fingerprint or opened.branch != job.branch:
            raise LaunchRefused(
                f"the attempt in {path} was opened for other maps, settings, code, model files or another branch than "
                "this shard has; delete that file and run again"
            )
        if _start(job, opened) is None:
            path.unlink(missing_ok=True)  # so that the next run of the workflow opens another
            raise LaunchRefused(
                f"start #{opened.seq} of branch {opened.branch}, the attempt of {run} that this shard belongs to, is "
                "not open any more; run the same command again, which opens another"
            )
        try:
            yield opened
        except RidgeFillError as failure:
            _give_up(job, run, opened, f"{_label(number)}: {type(failure).__name__}: {failure}", failure)
            raise


@contextmanager
def whole_run(job: Job, run: str, inputs: Sequence[Path], fingerprint: Callable[[], str]) -> Iterator[Attempt]:
    """The attempt under which tables are written: the open one that shards worked under, else one of this job.

    Raises ``Busy`` while a shard is at work, and what ``Job.attempt`` raises. The block has to call ``finish``.
    """
    _require_no_shard(job, run)
    path = _attempt_file(job, run)
    opened = _read(path)
    fits = opened is not None and opened.branch == job.branch and opened.fingerprint == fingerprint()
    if opened is not None and not (fits and _start(job, opened)):
        _give_up(job, run, opened, _GIVEN_UP)
        opened = None
    if opened is None:
        with job.attempt(run, inputs) as attempt:
            yield attempt
        return
    with _joined(job, run, opened) as attempt:
        try:
            yield attempt
        except RidgeFillError as failure:
            with suppress(LedgerError):
                attempt.fail(f"{type(failure).__name__}: {failure}")
            path.unlink(missing_ok=True)
            raise


@contextmanager
def _joined(job: Job, run: str, opened: Opened) -> Iterator[Attempt]:
    registration = job.registration
    with lease(job.root, registration.claim.experiment, run, "") as held:
        _require_no_shard(job, run)
        start = _start(job, opened)  # again: it may have been closed before the lease was had
        if start is None:
            raise LaunchRefused(f"start #{opened.seq} of branch {opened.branch} was just closed; run again")
        held.describe(start=start.leaf)
        yield Attempt(open_branch(job.root, opened.branch), opened.branch, registration, start, held)


def _label(number: int) -> str:
    return f"shard {number}"


def _read(path: Path) -> Opened | None:
    try:
        return Opened(**json.loads(path.read_text("utf-8")))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _start(job: Job, opened: Opened) -> Entry | None:
    """The start entry, if the branch has it and it has no result."""
    if opened.branch not in branch_names(job.root):
        return None
    starts = open_starts(job.root, open_branch(job.root, opened.branch).entries())
    return next((one.entry for one in starts if one.entry.leaf == opened.leaf), None)


def _require_no_shard(job: Job, run: str) -> None:
    experiment = job.registration.claim.experiment
    for number in range(1, MOST_SHARDS + 1):
        holder = holder_of(job.root, experiment, run, _label(number))
        if holder is not None:
            raise Busy(
                f"{_label(number)} of {experiment} {run} is running ({holder.words}); wait for it to end, or stop it"
            )


def _give_up(job: Job, run: str, opened: Opened, reason: str, failure: RidgeFillError | None = None) -> None:
    """Close an attempt as failed, unless it was closed already; ``failure`` stays the error that is raised."""
    try:
        if _start(job, opened) is not None:
            close_start(job.root, opened.branch, opened.seq, reason, ())
    except LedgerError as second:
        if failure is None:
            raise
        failure.add_note(f"and its result entry could not be written: {second}")
    _attempt_file(job, run).unlink(missing_ok=True)
