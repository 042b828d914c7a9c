"""Do the entries agree with each other: registrations, starts, results, grades, seeds, forks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ledger.chain import Chain
from ledger.checkpoint import parse_checkpoint
from ledger.claims import Claim
from ledger.entry import Entry
from ledger.errors import ClaimError, FormatError
from ledger.findings import Finding, error, from_format, note
from ledger.grades import grade_of, holds, inherited
from ledger.registration import stored_claim
from ledger.seeds import run_seed


@dataclass(frozen=True)
class RunRecord:
    """One start with its result. ``tier`` is T1 when both hash links hold, else T0 (own clock only)."""

    experiment: str
    run: str
    label: str
    start: int
    result: int | None
    status: str
    registration: str
    grade: str | None
    tier: str


class World:
    """All branches that were read, and look-ups across them."""

    def __init__(self, chains: Mapping[str, Chain]) -> None:
        self.chains = chains
        self.by_origin = {chain.origin: (name, chain) for name, chain in chains.items()}
        self._entries = {name: {entry.seq: entry for entry in chain.entries} for name, chain in chains.items()}

    def entry(self, branch: str, seq: int) -> Entry | None:
        """Entry of a branch by number, if it could be read."""
        return self._entries[branch].get(seq)

    def registration_of(self, start: Entry) -> tuple[str, Entry] | None:
        """(branch, entry) of the registration a start names, if it is here and has that leaf hash."""
        wanted = (start.body or {})["registration"]
        if wanted["origin"] not in self.by_origin:
            return None
        branch = self.by_origin[wanted["origin"]][0]
        entry = self.entry(branch, wanted["seq"])
        if entry is None or entry.leaf != wanted["leaf"] or entry.kind != "register":
            return None
        if wanted["origin"] == start.header["origin"] and entry.seq >= start.seq:
            return None
        return branch, entry

    def started(self, registration: Entry) -> set[str]:
        """Run ids that any branch started under a registration."""
        starts = [entry for chain in self.chains.values() for entry in chain.entries if entry.kind == "start"]
        bodies = [entry.body for entry in starts if entry.body is not None]
        return {body["run"] for body in bodies if body["registration"]["leaf"] == registration.leaf}


def check_accounting(world: World, branch: str) -> Iterator[Finding]:
    """Everything the entries of one branch say about other entries."""
    chain = world.chains[branch]
    closed: dict[int, int] = {}
    for entry in chain.entries:
        if entry.body is None:
            continue
        if entry.kind == "fork":
            yield from _check_fork(world, entry)
        elif entry.kind == "register":
            yield from _check_registration(world, chain, entry)
        elif entry.kind == "start":
            yield from _check_start(world, entry)
        elif entry.kind == "result":
            yield from _check_result(world, branch, entry, closed)
    if all(entry.body is not None for entry in chain.entries if entry.kind == "result"):
        for entry in chain.entries:
            if entry.kind == "start" and entry.body and entry.seq not in closed:
                name = f"{entry.body['experiment']} {entry.body['run']} {entry.body['label']}".rstrip()
                yield note("orphaned_start", entry.seq, f"{name} was started and has no result")


def _check_fork(world: World, entry: Entry) -> Iterator[Finding]:
    text = (entry.body or {})["checkpoint"]
    try:
        point = parse_checkpoint(text)
    except FormatError as failure:
        yield from_format(failure, entry.seq)
        return
    if point.origin not in world.by_origin:
        yield note("parent_absent", entry.seq, f"the parent {point.origin} is not here, so it is not checked")
    elif not holds(world.by_origin[point.origin][1], text):
        yield error("parent_mismatch", entry.seq, f"{point.origin} had other first {point.size} entries when forked")


def _check_registration(world: World, chain: Chain, entry: Entry) -> Iterator[Finding]:
    body = entry.body or {}
    try:
        claim = stored_claim(entry)
    except ClaimError as failure:
        yield error("bad_claim", entry.seq, str(failure))
        return
    if claim is None:
        return
    if claim.experiment != body["experiment"]:
        yield error("bad_claim", entry.seq, "its experiment is not the one of its claim")
    if [item["path"] for item in body["configs"]] != list(claim.configs):
        yield error("bad_claim", entry.seq, "its configs are not the ones its claim pins")
    yield from _check_grade(chain, entry)
    missing = [run.id for run in claim.runs if run.id not in world.started(entry)]
    if missing:
        yield note("never_run", entry.seq, f"{claim.experiment}: never started: {', '.join(missing)}")


def _check_grade(chain: Chain, entry: Entry) -> Iterator[Finding]:
    older = inherited(chain.path, chain.entries[0])
    before = (*(older or ()), *(other for other in chain.entries if other.seq < entry.seq))
    if older is None or any(other.kind == "start" and other.body is None for other in before):
        yield note("grade_unchecked", entry.seq, "earlier runs are not here, so its grade is not checked")
        return
    expected = grade_of(entry.body or {}, before)
    if entry.header["grade"] != expected:
        yield error("wrong_grade", entry.seq, f"found grade {entry.header['grade']}, the chain gives {expected}")


def _check_start(world: World, entry: Entry) -> Iterator[Finding]:
    body = entry.body or {}
    wanted = body["registration"]
    found = world.registration_of(entry)
    if found is None and wanted["origin"] not in world.by_origin:
        yield note("registration_absent", entry.seq, f"the ledger {wanted['origin']} it refers to is not here")
    elif found is None:
        yield error("unknown_registration", entry.seq, f"there is no such registration #{wanted['seq']} before it")
    if body["seed"] != str(run_seed(wanted["leaf"], f"{body['run']}/{body['label']}")):
        yield error("wrong_seed", entry.seq, "its seed is not the one its registration gives")
    if found is not None and found[1].body is not None:
        try:
            claim = stored_claim(found[1])
        except ClaimError:
            return  # reported where the registration stands
        if claim is not None:
            yield from _check_against_claim(entry.seq, body, found[1].body, claim)


def _check_against_claim(
    seq: int, body: Mapping[str, Any], registered: Mapping[str, Any], claim: Claim
) -> Iterator[Finding]:
    run = claim.run(body["run"])
    if run is None or body["experiment"] != claim.experiment:
        yield error("not_in_claim", seq, f"its claim has no run {body['experiment']} {body['run']}")
        return
    pinned = [item for item in registered["configs"] if item["path"] in run.configs]
    if list(body["configs"]) != pinned:
        yield error("wrong_configs", seq, "its config hashes are not the registered ones")
    for key, value in body["overrides"].items():
        if value not in claim.overrides.get(key, ()):
            yield error("not_in_claim", seq, f"its claim does not allow {key}={value}")


def _check_result(world: World, branch: str, entry: Entry, closed: dict[int, int]) -> Iterator[Finding]:
    wanted = (entry.body or {})["start"]
    start = world.entry(branch, wanted["seq"])
    if start is None or start.leaf != wanted["leaf"] or start.kind != "start" or start.seq >= entry.seq:
        yield error("unknown_start", entry.seq, f"there is no such start #{wanted['seq']} before it")
    elif start.seq in closed:
        yield error("second_result", entry.seq, f"start #{start.seq} has its result #{closed[start.seq]} already")
    else:
        closed[start.seq] = entry.seq


def run_records(world: World, branch: str) -> list[RunRecord]:
    """Every start of a branch whose body is here, in order."""
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
                tier="T1" if found and linked else "T0",
            )
        )
    return records
