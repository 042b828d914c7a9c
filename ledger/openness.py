"""What a redacted ledger still says about open registrations and unfinished starts, and how surely."""

from __future__ import annotations

from dataclasses import dataclass

from ledger.entry import Entry
from ledger.history import History, histories
from ledger.world import World


@dataclass(frozen=True)
class Open:
    """An entry and what closes it, as far as the shown bodies say.

    ``closed_by`` are (branch, number) of the starts of a registration, or of the result of a start. ``maybe``
    counts withheld entries that could close it too, so an entry is certainly open when both are empty.
    """

    seq: int
    kind: str
    closed_by: tuple[tuple[str, int], ...]
    maybe: int
    voided_by: int | None = None
    amended_by: tuple[int, ...] = ()

    @property
    def state(self) -> str:
        """``closed``, ``open`` (certain) or ``unknown``."""
        if self.closed_by:
            return "closed"
        return "unknown" if self.maybe else "open"


def registrations(world: World, branch: str) -> tuple[Open, ...]:
    """Every registration of a branch: started or not. Amendments count with the registration they name."""
    return tuple(_registration(world, branch, history) for history in histories(world.chains[branch].entries))


def starts(world: World, branch: str) -> tuple[Open, ...]:
    """Every start of a branch: with a result or not."""
    entries = world.chains[branch].entries
    results = [entry for entry in entries if entry.kind == "result"]
    closing: dict[tuple[int, str], list[tuple[str, int]]] = {}
    for result in results:
        if result.body is not None:
            pointer = result.body["start"]
            closing.setdefault((pointer["seq"], pointer["leaf"]), []).append((branch, result.seq))
    return tuple(
        Open(
            seq=entry.seq,
            kind=entry.kind,
            closed_by=tuple(closing.get((entry.seq, entry.leaf), ())),
            maybe=sum(result.body is None and result.seq > entry.seq for result in results),
        )
        for entry in entries
        if entry.kind == "start"
    )


def _registration(world: World, branch: str, history: History) -> Open:
    entry = history.registration
    return Open(
        seq=entry.seq,
        kind=entry.kind,
        closed_by=tuple((name, start.seq) for name, start in world.starts_under(history)),
        maybe=hidden_starts(world, branch, entry),
        voided_by=history.void.seq if history.void else None,
        amended_by=tuple(item.seq for item in history.amendments),
    )


def hidden_starts(world: World, branch: str, registration: Entry) -> int:
    """How many starts could be under a registration unseen: withheld ones, and those under withheld amendments."""
    amendments = {
        entry.leaf
        for entry in world.withheld
        if entry.kind == "amend" and entry.header["origin"] == registration.header["origin"]
        if entry.seq > registration.seq
    }
    starts = [start for leaf in amendments for start in world.starts.get(leaf, ())]
    starts += [(world.by_origin[entry.header["origin"]][0], entry) for entry in world.withheld if entry.kind == "start"]
    return sum(not world.precedes(name, entry.seq, branch, registration.seq) for name, entry in starts)
