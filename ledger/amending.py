"""Changing a registration after the fact, on the record: amendments and voids. Nothing is rewritten."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from ledger.entry import Entry
from ledger.errors import UsageError
from ledger.history import History, histories
from ledger.pinning import differences, pin
from ledger.store import Ledger


def amend(root: Path, ledger: Ledger, seq: int, claim_path: Path, reason: str) -> Entry:
    """Append an amendment: registration ``seq`` now has the claim and configs on the disk.

    UsageError when ``seq`` is no registration that stands, when nothing changed, or when the claim is of
    another experiment (that is a registration of its own).
    """
    history = standing(ledger, seq)
    pinned = pin(root, claim_path)
    body = history.current.body
    if body is None:
        raise UsageError(f"the body of entry #{history.current.seq} is withheld here; amend it where it is kept")
    if pinned.claim.experiment != body["experiment"]:
        raise UsageError(
            f"found the experiment {pinned.claim.experiment!r} in {pinned.path}, registration #{seq} is of "
            f"{body['experiment']!r}; type `ledger register {pinned.path}` instead"
        )
    if not differences(body, pinned):
        raise UsageError(f"registration #{seq} has these bytes already; edit {pinned.path} first")
    return _append(ledger, "amend", history, {**_about(history, reason), **pinned.body()})


def void(ledger: Ledger, seq: int, reason: str) -> Entry:
    """Append a void: registration ``seq`` launches nothing any more. UsageError when it does not stand."""
    history = standing(ledger, seq)
    return _append(ledger, "void", history, _about(history, reason))


def standing(ledger: Ledger, seq: int) -> History:
    """The registration with number ``seq`` and what became of it; UsageError when it is none, or voided."""
    return _standing(ledger, ledger.entries(), seq)


def _standing(ledger: Ledger, entries: Iterable[Entry], seq: int) -> History:
    known = histories(entries)
    found = next((item for item in known if seq in {entry.seq for entry in item.versions}), None)
    if found is None:
        numbers = ", ".join(f"#{item.registration.seq}" for item in known if item.void is None) or "none"
        raise UsageError(f"found no registration #{seq} in {ledger.path} (standing: {numbers}); see `ledger log`")
    if found.void is not None:
        raise UsageError(f"registration #{seq} was voided by #{found.void.seq}; register a new claim instead")
    return found


def _append(ledger: Ledger, kind: str, history: History, body: Mapping[str, object]) -> Entry:
    """Append what was decided for ``history``; UsageError when somebody else changed the registration meanwhile."""

    def still(entries: tuple[Entry, ...]) -> None:
        now = _standing(ledger, entries, history.registration.seq)
        if now.current.leaf != history.current.leaf:
            raise UsageError(
                f"registration #{now.registration.seq} was amended by #{now.current.seq} just now; see `ledger log`, "
                "then type the same command again"
            )

    return ledger.append(kind, body, still)


def _about(history: History, reason: str) -> dict[str, object]:
    if not reason.strip():
        raise UsageError("found no reason; say why with --reason, it stays in the ledger")
    return {"registration": {"seq": history.registration.seq, "leaf": history.registration.leaf}, "reason": reason}
