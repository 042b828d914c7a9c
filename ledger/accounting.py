"""Do the entries of a branch agree with each other: registrations, amendments, voids, starts, results, forks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ledger.checkpoint import parse_checkpoint
from ledger.claims import Claim
from ledger.entry import Entry
from ledger.errors import ClaimError, FormatError
from ledger.findings import Finding, error, from_format, note
from ledger.grades import grade_of, holds, started_experiments
from ledger.history import History
from ledger.openness import hidden_starts
from ledger.seeds import run_seed
from ledger.world import World


def check_accounting(world: World, branch: str) -> Iterator[Finding]:
    """Everything the entries of one branch say about other entries."""
    yield from _Accounts(world, branch).check()


class _Accounts:
    """State of one pass over a branch: what had been started, voided and closed so far."""

    def __init__(self, world: World, branch: str) -> None:
        self.world, self.branch, self.chain = world, branch, world.chains[branch]
        older = world.inherited(branch)
        # None once a start is out of sight: then a grade cannot be checked any more.
        self.started = None if older is None else started_experiments(older)
        if any(entry.kind == "start" and entry.body is None for entry in older or ()):
            self.started = None
        self.voided: dict[str, int] = {}
        self.closed: dict[int, int] = {}

    def check(self) -> Iterator[Finding]:
        checks = {
            "fork": self._fork,
            "register": self._register,
            "amend": self._amend,
            "void": self._void,
            "start": self._start,
            "result": self._result,
        }
        for entry in self.chain.entries:
            if entry.kind == "start" and entry.body is None:
                self.started = None
            if entry.body is not None and entry.kind in checks:
                yield from checks[entry.kind](entry, entry.body)
        if all(entry.body is not None for entry in self.chain.entries if entry.kind == "result"):
            yield from self._orphans()

    def _fork(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        try:
            point = parse_checkpoint(body["checkpoint"])
        except FormatError as failure:
            yield from_format(failure, entry.seq)
            return
        if point.origin not in self.world.by_origin:
            yield note("parent_absent", entry.seq, f"the parent {point.origin} is not here, so it is not checked")
        elif not holds(self.world.by_origin[point.origin][1], point):
            yield error(
                "parent_mismatch", entry.seq, f"{point.origin} had other first {point.size} entries when forked"
            )

    def _register(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        yield from self._claimed(entry, body)
        _, history = self.world.histories[entry.leaf]
        if history.void is not None or (history.current.body is None):
            return
        try:
            claim = self.world.claim_of(history.current)
        except ClaimError:
            return  # reported where that version stands
        missing = [run.id for run in claim.runs if run.id not in self.world.started(history)] if claim else []
        if claim and missing:
            hidden = hidden_starts(self.world, self.branch, entry)
            unless = f", unless by one of the {hidden} starts that are withheld" if hidden else ""
            yield note("never_run", entry.seq, f"{claim.experiment}: never started: {', '.join(missing)}{unless}")

    def _amend(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        yield from self._claimed(entry, body)
        target, complaints = self._target(entry, body)
        yield from complaints
        if target is not None and target.body is not None and target.body["experiment"] != body["experiment"]:
            yield error("bad_amendment", entry.seq, f"it is of another experiment than registration #{target.seq}")

    def _void(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        target, complaints = self._target(entry, body)
        yield from complaints
        if target is None or complaints:
            return
        self.voided[target.leaf] = entry.seq
        _, history = self.world.histories[target.leaf]
        runs = sorted({f"#{start.seq} of {name}" for name, start in self.world.starts_under(history)})
        if runs:
            yield note(
                "voided_after_start", entry.seq, f"registration #{target.seq} had been started: {', '.join(runs)}"
            )

    def _target(self, entry: Entry, body: Mapping[str, Any]) -> tuple[Entry | None, list[Finding]]:
        """The registration an amendment or void names, and what is wrong with naming it."""
        wanted = body["registration"]
        target = self.world.entry(self.branch, wanted["seq"])
        if target is None or target.leaf != wanted["leaf"] or target.kind != "register" or target.seq >= entry.seq:
            message = f"there is no such registration #{wanted['seq']} before it"
            return None, [error("unknown_registration", entry.seq, message)]
        if target.leaf in self.voided:
            message = f"registration #{target.seq} was voided by #{self.voided[target.leaf]}"
            return target, [error("voided_registration", entry.seq, message)]
        return target, []

    def _claimed(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        """What a registration or amendment says of its claim, and its grade."""
        try:
            claim = self.world.claim_of(entry)
        except ClaimError as failure:
            yield error("bad_claim", entry.seq, str(failure))
            return
        if claim is not None and claim.experiment != body["experiment"]:
            yield error("bad_claim", entry.seq, "its experiment is not the one of its claim")
        if claim is not None and [item["path"] for item in body["configs"]] != list(claim.configs):
            yield error("bad_claim", entry.seq, "its configs are not the ones its claim pins")
        if self.started is None:
            yield note("grade_unchecked", entry.seq, "earlier runs are not here, so its grade is not checked")
        elif entry.header["grade"] != (expected := grade_of(body, self.started)):
            yield error("wrong_grade", entry.seq, f"found grade {entry.header['grade']}, the chain gives {expected}")

    def _start(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        if self.started is not None:
            self.started.add(body["experiment"])
        wanted = body["registration"]
        found = self.world.registration_of(entry)
        if found is None and wanted["origin"] not in self.world.by_origin:
            yield note("registration_absent", entry.seq, f"the ledger {wanted['origin']} it refers to is not here")
        elif found is None:
            yield error("unknown_registration", entry.seq, f"there is no such registration #{wanted['seq']} before it")
        if body["seed"] != str(run_seed(wanted["leaf"], f"{body['run']}/{body['label']}")):
            yield error("wrong_seed", entry.seq, "its seed is not the one its registration gives")
        if found is None:
            return
        yield from self._standing(entry, *found)
        registered = found[1].body
        if registered is None:
            return
        try:
            claim = self.world.claim_of(found[1])
        except ClaimError:
            return  # reported where the registration stands
        if claim is not None:
            yield from _check_against_claim(entry, body, registered, claim)

    def _standing(self, entry: Entry, branch: str, version: Entry) -> Iterator[Finding]:
        """Was the version a start names the last one, and not voided, at that point of the chain?"""
        if version.leaf not in self.world.histories:
            return  # an amendment that was itself refused
        _, history = self.world.histories[version.leaf]
        changes = history.amendments[_place(history, version) :]
        for later in changes:
            if self.world.precedes(branch, later.seq, self.branch, entry.seq):
                yield error(
                    "superseded_registration", entry.seq, f"#{version.seq} had been amended by #{later.seq} before it"
                )
        void = history.void
        if void is not None and self.world.precedes(branch, void.seq, self.branch, entry.seq):
            yield error("voided_registration", entry.seq, f"#{version.seq} had been voided by #{void.seq} before it")

    def _result(self, entry: Entry, body: Mapping[str, Any]) -> Iterator[Finding]:
        wanted = body["start"]
        start = self.world.entry(self.branch, wanted["seq"])
        if start is None or start.leaf != wanted["leaf"] or start.kind != "start" or start.seq >= entry.seq:
            yield error("unknown_start", entry.seq, f"there is no such start #{wanted['seq']} before it")
        elif start.seq in self.closed:
            yield error(
                "second_result", entry.seq, f"start #{start.seq} has its result #{self.closed[start.seq]} already"
            )
        else:
            self.closed[start.seq] = entry.seq

    def _orphans(self) -> Iterator[Finding]:
        for entry in self.chain.entries:
            if entry.kind == "start" and entry.body is not None and entry.seq not in self.closed:
                name = f"{entry.body['experiment']} {entry.body['run']} {entry.body['label']}".rstrip()
                yield note("orphaned_start", entry.seq, f"{name} was started and has no result")


def _place(history: History, version: Entry) -> int:
    """How many amendments the version rests on: 0 for the registration itself."""
    return [item.leaf for item in history.versions].index(version.leaf)


def _check_against_claim(
    entry: Entry, body: Mapping[str, Any], registered: Mapping[str, Any], claim: Claim
) -> Iterator[Finding]:
    run = claim.run(body["run"])
    if run is None or body["experiment"] != claim.experiment:
        yield error("not_in_claim", entry.seq, f"its claim has no run {body['experiment']} {body['run']}")
        return
    pinned = [item for item in registered["configs"] if item["path"] in run.configs]
    if list(body["configs"]) != pinned:
        yield error("wrong_configs", entry.seq, "its config hashes are not the registered ones")
    for key, value in body["overrides"].items():
        if value not in claim.overrides.get(key, ()):
            yield error("not_in_claim", entry.seq, f"its claim does not allow {key}={value}")
    if claim.start_by is not None and entry.time[:10] > claim.start_by:
        yield error("overdue_start", entry.seq, f"it started on {entry.time[:10]}, allowed until {claim.start_by}")
