"""What the published ledger says: whether it is whole, what it recorded of each experiment, how predictions fell."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ledger.artifacts import check_published, standing_outputs
from ledger.branches import MAIN, branch_names, branch_path
from ledger.chain import read_chain
from ledger.entry import Entry
from ledger.errors import NoLedger
from ledger.files import hash_file
from ledger.reports import BranchReport
from ledger.verdicts import Decided
from ledger.verify import verify
from ledger.world import World
from ridgefill.provider import config_sha256
from ridgefill.results import files_of, metadata_of, read_json, read_table

PUBLISHED = Path("data/results")
SAMPLES = "ruler/samples.parquet"
BESIDE = (
    "experiment.json",
    "provenance.json",
    "claim.yaml",
    "overlap.json",
    "verdicts.json",
    "cells.json",
    "report.html",
)


@dataclass(frozen=True)
class Evidence:
    """The published branch, verified. ``errors`` are those of ``ledger verify``, one line each."""

    root: Path
    report: BranchReport
    world: World
    errors: tuple[str, ...]

    @cached_property
    def registrations(self) -> tuple[Entry, ...]:
        """Registrations of the published branch as they stand, in the order of the chain; none when it is broken."""
        if not self.world.chains[MAIN].sound:
            return ()
        return tuple(history.current for name, history in self.world.registrations if name == MAIN)

    @cached_property
    def decided(self) -> Mapping[str, Decided]:
        """Experiment -> its verdicts, decided here; the last registration that was run stands."""
        return {item.experiment: item for item in self.report.decided}

    @cached_property
    def recorded(self) -> Mapping[str, Mapping[str, str]]:
        """Experiment -> path -> SHA-256 of every published output that stands."""
        found: dict[str, dict[str, str]] = {}
        if self.world.chains[MAIN].sound:
            for (experiment, path), output in standing_outputs(self.world, MAIN).items():
                if output.published:
                    found.setdefault(experiment, {})[path] = output.sha256
        return found

    def entry_of(self, experiment: str) -> Entry | None:
        """The last registration of an experiment."""
        mine = [entry for entry in self.registrations if (entry.body or {}).get("experiment") == experiment]
        return mine[-1] if mine else None

    def problems(self, experiment: str) -> Iterator[str]:
        """What keeps the files of one experiment from being those that were recorded, one sentence each."""
        folder = self.root / PUBLISHED / experiment
        if not self.world.chains[MAIN].sound:
            yield f"{PUBLISHED / experiment} cannot be checked: the ledger that says which bytes are right is broken"
            return
        changed = list(self._changed(folder, experiment))
        yield from changed
        if changed:
            return
        if experiment not in self.recorded:
            yield f"{PUBLISHED / experiment}: no entry of the published ledger names its files"
        elif self.rendered(experiment):
            yield from self._beside(folder, experiment)

    def _changed(self, folder: Path, experiment: str) -> Iterator[str]:
        for path, sha256 in sorted(self.recorded.get(experiment, {}).items()):
            try:
                found = hash_file(folder / path)[0]
            except OSError:
                yield f"{PUBLISHED / experiment / path} is missing"
                continue
            if found != sha256:
                yield f"{PUBLISHED / experiment / path} has SHA-256 {found[:12]}, the ledger recorded {sha256[:12]}"

    def rendered(self, experiment: str) -> bool:
        """Whether an experiment has a report: one of which only answers were recorded has none."""
        return set(self.recorded.get(experiment, ())) != {SAMPLES}

    def _beside(self, folder: Path, experiment: str) -> Iterator[str]:
        """The files beside the tables, which no entry names: the ledger and the tables say what has to be in them."""
        absent = [name for name in BESIDE if not (folder / name).is_file()]
        yield from (f"{PUBLISHED / experiment / name} is missing" for name in absent)
        entry = self.entry_of(experiment)
        if absent or entry is None:
            return
        claim = hashlib.sha256((folder / "claim.yaml").read_bytes()).hexdigest()
        if claim != (entry.body or {})["claim_file"]["sha256"]:
            yield f"{PUBLISHED / experiment}/claim.yaml is not the claim that entry #{entry.seq} registered"
        provenance = read_json(folder / "provenance.json")
        registered = provenance.get("registration") if isinstance(provenance, dict) else None
        if not isinstance(registered, dict) or registered.get("leaf") != entry.leaf:
            yield f"{PUBLISHED / experiment}/provenance.json names another registration than entry #{entry.seq}"
        stated = config_sha256(read_json(folder / "experiment.json"))
        for name in files_of(folder):
            if metadata_of(read_table(folder / name, files_of(folder)[name]))["config_sha256"] != stated:
                yield f"{PUBLISHED / experiment}/experiment.json is not the settings that {name} was made under"
                return


def gather(root: Path) -> Evidence:
    """Verify the published branch of the project at ``root``, offline. Raises NoLedger."""
    if MAIN not in branch_names(root):
        raise NoLedger(f"there is no published ledger in {root / 'data/ledger' / MAIN}; run from the project's root")
    report = verify(root, [MAIN]).branches[0]
    # A user's own branch is no part of what was published.
    world = World({MAIN: read_chain(branch_path(root, MAIN))})
    findings = [*report.findings, *(check_published(root, world) if world.chains[MAIN].sound else ())]
    return Evidence(root, report, world, tuple(item.line() for item in findings if item.level == "error"))
