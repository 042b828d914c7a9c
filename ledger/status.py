"""Where a project stands: what each registration still has to run, what is running, what nobody closed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ledger.branches import branch_names, branch_path, ledger_home
from ledger.chain import Chain, read_chain
from ledger.checkpoints import stored_sizes
from ledger.errors import BrokenLedger, ClaimError, NoLedger
from ledger.history import History, histories
from ledger.orphans import OpenStart, open_starts, run_name
from ledger.pinning import changed_files
from ledger.registration import stored_claim
from ledger.status_text import next_command, status_text
from ledger.world import World


@dataclass(frozen=True)
class RegistrationStatus:
    """One registration. ``state`` is standing, overdue, drifted, voided or withheld; ``why`` says more.

    ``never_started`` are run ids that no branch has started under it.
    """

    seq: int
    experiment: str
    claim: str
    state: str
    why: str
    never_started: tuple[str, ...]


@dataclass(frozen=True)
class StartStatus:
    """A start without result: ``holder`` is who works on it, or None when nobody does here."""

    seq: int
    since: str
    run: str
    holder: str | None


@dataclass(frozen=True)
class BranchStatus:
    """One branch. ``parent`` is (origin, size) of what it was forked from; ``checkpoint`` the newest stored size.

    ``broken`` is the first error of its chain, of which nothing else is said then.
    """

    name: str
    origin: str
    size: int
    last: str
    parent: tuple[str, int] | None
    checkpoint: int | None
    ok: int
    failed: int
    registrations: tuple[RegistrationStatus, ...]
    open: tuple[StartStatus, ...]
    broken: str | None


@dataclass(frozen=True)
class Status:
    """All branches that were asked for, and the command that helps most now."""

    branches: tuple[BranchStatus, ...]
    next: str

    @property
    def exit_code(self) -> int:
        """0, or that of a broken ledger."""
        return BrokenLedger.exit_code if any(branch.broken for branch in self.branches) else 0

    def to_json(self) -> dict[str, Any]:
        """The status as JSON-ready values."""
        return asdict(self)

    def text(self) -> str:
        """The status for a person, in at most 100 columns; only the command to type next is never cut."""
        return status_text(self)


def status(root: Path, branch: str | None = None) -> Status:
    """The status of one branch (default: all) of the project at ``root``. Raises NoLedger when it is not there."""
    names = branch_names(root)
    if not names:
        raise NoLedger(f"there is no ledger in {ledger_home(root)}; type `ledger init` to open one, or pass --root")
    if branch not in (None, *names):
        raise NoLedger(f"there is no ledger branch {branch!r} in {ledger_home(root)} (found: {', '.join(names)})")
    world = World({name: read_chain(branch_path(root, name)) for name in names})
    branches = tuple(_branch(root, world, name) for name in names if branch in (None, name))
    return Status(branches, next_command(root, branches))


def _branch(root: Path, world: World, name: str) -> BranchStatus:
    chain = world.chains[name]
    errors = [finding.line() for finding in chain.findings if finding.level == "error"]
    entries = () if errors else chain.entries
    results = [entry.body["status"] for entry in entries if entry.kind == "result" and entry.body is not None]
    checkpoints = stored_sizes(chain.path)
    return BranchStatus(
        name=name,
        origin=chain.origin,
        size=len(chain.leaves),
        last=chain.entries[-1].time if chain.entries else "",
        parent=_parent(chain),
        checkpoint=checkpoints[-1] if checkpoints else None,
        ok=results.count("ok"),
        failed=results.count("failed"),
        registrations=tuple(_registration(root, world, history) for history in histories(entries)),
        open=tuple(_start(item) for item in open_starts(root, entries)),
        broken=errors[0] if errors else None,
    )


def _parent(chain: Chain) -> tuple[str, int] | None:
    first = chain.entries[0] if chain.entries else None
    if first is None or first.kind != "fork" or first.body is None:
        return None
    lines: Sequence[str] = first.body["checkpoint"].split("\n")
    return (lines[0], int(lines[1])) if len(lines) > 1 and lines[1].isdecimal() else None


def _registration(root: Path, world: World, history: History) -> RegistrationStatus:
    seq, body = history.registration.seq, history.current.body
    try:
        claim = stored_claim(history.current)
    except ClaimError as failure:
        return RegistrationStatus(seq, "?", "?", "drifted", str(failure), ())
    if body is None or claim is None:
        return RegistrationStatus(seq, "?", "?", "withheld", "", ())
    started = world.started(history)
    never = tuple(run.id for run in claim.runs if run.id not in started)
    state, why = "standing", ""
    if history.void is not None:
        state, why = "voided", f"by #{history.void.seq}: {(history.void.body or {})['reason']}"
    elif changes := tuple(changed_files(root, body)):
        state, why = "drifted", "; ".join(changes)
    elif claim.start_by is not None and datetime.now(UTC).date().isoformat() > claim.start_by:
        state, why = "overdue", f"its runs had to start by {claim.start_by}"
    return RegistrationStatus(seq, claim.experiment, body["claim_file"]["path"], state, why, never)


def _start(item: OpenStart) -> StartStatus:
    holder = None if item.holder is None else item.holder.words
    return StartStatus(item.entry.seq, item.entry.time, run_name(item.entry), holder)
