"""What became of each registration: how it was amended, and whether it was voided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ledger.entry import Entry


@dataclass(frozen=True)
class History:
    """A ``register`` entry with the amendments and the void that name it, in the order of the chain."""

    registration: Entry
    amendments: tuple[Entry, ...] = ()
    void: Entry | None = None

    @property
    def versions(self) -> tuple[Entry, ...]:
        """The registration and its amendments, oldest first; each pins a claim and configs of its own."""
        return (self.registration, *self.amendments)

    @property
    def current(self) -> Entry:
        """The version that launches runs now."""
        return self.versions[-1]


def histories(entries: Iterable[Entry]) -> tuple[History, ...]:
    """Every registration of one chain with what became of it; entries whose bodies are withheld say nothing."""
    found: dict[tuple[int, str], History] = {}
    for entry in entries:
        if entry.kind == "register":
            found[entry.seq, entry.leaf] = History(entry)
        if entry.kind not in ("amend", "void") or entry.body is None:
            continue
        pointer = entry.body["registration"]
        history = found.get((pointer["seq"], pointer["leaf"]))
        if history is None or history.void is not None:
            continue  # reported by ledger.accounting; it changes nothing
        amended = (*history.amendments, entry)
        changed = replace(history, void=entry) if entry.kind == "void" else replace(history, amendments=amended)
        found[pointer["seq"], pointer["leaf"]] = changed
    return tuple(found.values())
