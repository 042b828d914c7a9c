"""Registering a claim, and finding the registration that covers what is on the disk now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ledger.branches import branch_names, open_branch
from ledger.claims import Claim, claim_from
from ledger.entry import Entry
from ledger.errors import Drifted, NotInClaim, Overdue, Unregistered, Voided
from ledger.files import relative_to
from ledger.history import History, histories
from ledger.pinning import GONE, Pinned, differences, pin
from ledger.store import Ledger


@dataclass(frozen=True)
class Registration:
    """A registration that covers the claim and configs on the disk.

    ``seq`` and ``leaf`` (hex leaf hash) are those of the entry that pins them: the registration itself, or
    its last amendment. ``configs`` maps each pinned path to its hex SHA-256.
    """

    branch: str
    origin: str
    seq: int
    leaf: str
    grade: str
    claim: Claim
    claim_path: str
    claim_sha256: str
    configs: Mapping[str, str]


def register(root: Path, ledger: Ledger, claim_path: Path) -> tuple[Entry, bool]:
    """Append a registration; returns (entry, new), where new is False if the same one stands already."""
    pinned = pin(root, claim_path)
    for history in histories(ledger.entries()):
        current = history.current
        if history.void is None and current.body is not None and not differences(current.body, pinned):
            return current, False
    return ledger.append("register", pinned.body()), True


def find_registration(root: Path, branches: Sequence[str], claim_path: Path) -> Registration:
    """Find the first registration, in the order of ``branches``, of exactly these bytes.

    Branches that do not exist are passed over. Raises Unregistered when the claim was never registered,
    Drifted when it was but the claim or a pinned config has changed since, Voided when the registration of
    these bytes was withdrawn, Overdue when its last day has passed; each names what to type.
    """
    name = relative_to(root, root / claim_path) or str(claim_path)
    command = f"`ledger register {name}`"
    if not (root / claim_path).is_file():
        raise Unregistered(f"there is no claim file {name}; write one and type {command}")
    pinned = pin(root, root / claim_path, absent=GONE)
    known = branch_names(root)
    looked = [branch for branch in dict.fromkeys(branches) if branch in known]
    refusal: Exception | None = None
    for branch, history, changes in _candidates(root, looked, pinned):
        if history.void is None and not changes:
            return _in_time(registration_from(branch, history.current))
        refusal = _refusal(branch, history, changes, command)
    if refusal is not None:
        raise refusal
    where = ", ".join(looked) or "no branch yet"
    raise Unregistered(f"the claim {name} is not registered (looked in: {where}); type {command} first")


def _candidates(root: Path, branches: Sequence[str], pinned: Pinned) -> Iterator[tuple[str, History, list[str]]]:
    """Registrations of the same claim file or of the same bytes, with what differs from the disk."""
    for branch in branches:
        for history in histories(open_branch(root, branch).entries()):
            body = history.current.body
            if body is None:
                continue
            changes = differences(body, pinned)
            if not changes or body["claim_file"]["path"] == pinned.path:
                yield branch, history, changes


def _refusal(branch: str, history: History, changes: Sequence[str], command: str) -> Exception:
    place = f"registration #{history.registration.seq} of branch {branch}"
    if history.void is not None and not changes:
        reason = (history.void.body or {})["reason"]
        return Voided(f"{place} was voided by #{history.void.seq} ({reason}): register the claim anew with {command}")
    last = f", amended by #{history.current.seq}" if history.amendments else ""
    return Drifted(
        f"{'; '.join(changes)} since {place}{last}: restore the registered bytes, or register what is there "
        f"now with {command}"
    )


def _in_time(registration: Registration) -> Registration:
    """The registration, unless the last day on which it may start a run has passed (Overdue)."""
    last, today = registration.claim.start_by, datetime.now(UTC).date().isoformat()
    if last is not None and today > last:
        raise Overdue(
            f"registration #{registration.seq} of branch {registration.branch} had to start its runs by {last} and "
            f"today is {today} (UTC): set a later start_by in {registration.claim_path} and register it again"
        )
    return registration


def recheck(root: Path, registration: Registration) -> None:
    """Re-read the registration entry and re-hash everything it pins; the refusals of ``find_registration``."""
    history = _history_of(registration, open_branch(root, registration.branch).entries())
    changes = differences(history.current.body or {}, pin(root, root / registration.claim_path, absent=GONE))
    if changes or history.void is not None:
        raise _refusal(registration.branch, history, changes, _register(registration))
    _in_time(registration)


def require_standing(registration: Registration, entries: Sequence[Entry]) -> None:
    """Drifted or Voided when ``entries``, of the registration's own chain, amend or void it."""
    history = _history_of(registration, entries)
    if history.void is not None:
        raise _refusal(registration.branch, history, (), _register(registration))


def _history_of(registration: Registration, entries: Sequence[Entry]) -> History:
    """What became of a registration that was found; Unregistered when it is gone, Drifted when it was amended."""
    found = [item for item in histories(entries) if registration.leaf in {entry.leaf for entry in item.versions}]
    if not found or registration.seq >= len(entries) or entries[registration.seq].leaf != registration.leaf:
        raise Unregistered(
            f"registration #{registration.seq} of branch {registration.branch} is not the entry that was "
            "found before; type `ledger verify`"
        )
    history = found[0]
    if history.void is None and history.current.leaf != registration.leaf:
        raise Drifted(
            f"registration #{registration.seq} of branch {registration.branch} was amended by #{history.current.seq} "
            "since it was looked up: type the same command again"
        )
    return history


def _register(registration: Registration) -> str:
    return f"`ledger register {registration.claim_path}`"


def check_allowed(registration: Registration, run_id: str, overrides: Mapping[str, str]) -> None:
    """NotInClaim unless the claim names the run and every override value."""
    claim = registration.claim
    if claim.run(run_id) is None:
        known = ", ".join(run.id for run in claim.runs)
        raise NotInClaim(f"the claim {registration.claim_path} has no run {run_id!r}, expected one of {known}")
    for key, value in overrides.items():
        allowed = claim.overrides.get(key, ())
        if value not in allowed:
            listed = ", ".join(allowed) or "no override"
            raise NotInClaim(
                f"found {key}={value}, but registration #{registration.seq} allows {listed} for {key}; drop "
                f"it, or add it to {registration.claim_path} and register again"
            )


def stored_claim(entry: Entry) -> Claim | None:
    """The claim inside a ``register`` or ``amend`` entry; None when withheld. ClaimError when invalid."""
    return None if entry.body is None else claim_from(entry.body["claim"], f"entry #{entry.seq}")


def registration_from(branch: str, entry: Entry) -> Registration:
    """The registration that a ``register`` or ``amend`` entry with its body makes."""
    body = entry.body or {}
    return Registration(
        branch=branch,
        origin=str(entry.header["origin"]),
        seq=entry.seq,
        leaf=entry.leaf,
        grade=str(entry.header["grade"]),
        claim=claim_from(body["claim"], f"entry #{entry.seq}"),
        claim_path=body["claim_file"]["path"],
        claim_sha256=body["claim_file"]["sha256"],
        configs={item["path"]: item["sha256"] for item in body["configs"]},
    )
