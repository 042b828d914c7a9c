"""What became of every start, and how strong the evidence is that its registration came first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger.world import World

# (branch, seq of the start) -> tier above T1 that was shown for it, see ledger.tiers.
Shown = Mapping[tuple[str, int], str]


@dataclass(frozen=True)
class RunRecord:
    """One start with its result. ``tier`` is the strongest evidence of order that was checked: T0 to T3."""

    experiment: str
    run: str
    label: str
    start: int
    result: int | None
    status: str
    registration: str
    grade: str | None
    tier: str


def run_records(world: World, branch: str, shown: Shown) -> list[RunRecord]:
    """Every start of a branch whose body is here, in order.

    T0: own clock only. T1: the start names its registration, and the result the start, by leaf hash.
    ``shown`` raises a run that has reached T1.
    """
    chain = world.chains[branch]
    results = {entry.body["start"]["seq"]: entry for entry in chain.entries if entry.kind == "result" and entry.body}
    records = []
    for entry in chain.entries:
        if entry.kind != "start" or entry.body is None:
            continue
        body, result, found = entry.body, results.get(entry.seq), world.registration_of(entry)
        linked = result is not None and (result.body or {})["start"]["leaf"] == entry.leaf
        records.append(
            RunRecord(
                experiment=body["experiment"],
                run=body["run"],
                label=body["label"],
                start=entry.seq,
                result=result.seq if result else None,
                status=(result.body or {})["status"] if result else "open",
                registration=f"{found[0]}#{found[1].seq}" if found else "?",
                grade=str(found[1].header["grade"]) if found else None,
                tier=shown.get((branch, entry.seq), "T1") if found and linked else "T0",
            )
        )
    return records
