"""Verify a project's ledger offline: every branch, every entry, every file the entries name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger.accounting import RunRecord, World, check_accounting, run_records
from ledger.artifacts import FILE_CODES, check_configs, check_outputs, check_published
from ledger.branches import branch_names, branch_path, ledger_home
from ledger.chain import read_chain
from ledger.checkpoint import checkpoint_of
from ledger.errors import BrokenLedger, NoLedger, OutputMismatch
from ledger.findings import Finding, error

PINNED = "prefix intact, end not pinned"
NOT_INTACT = "not intact"


@dataclass(frozen=True)
class BranchReport:
    """One branch: its size, its checkpoint text (with the root), what was found, and its runs."""

    name: str
    origin: str
    size: int
    checkpoint: str
    state: str
    findings: tuple[Finding, ...]
    runs: tuple[RunRecord, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)


@dataclass(frozen=True)
class Report:
    """The outcome of ``verify``; ``findings`` are those about the project rather than one branch."""

    branches: tuple[BranchReport, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """All errors of all branches."""
        everything = (*self.findings, *(item for branch in self.branches for item in branch.findings))
        return tuple(finding for finding in everything if finding.level == "error")

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.errors

    @property
    def exit_code(self) -> int:
        """0, or 5 when only files beside a sound chain differ, or 4."""
        if self.ok:
            return 0
        only_files = all(finding.code in FILE_CODES for finding in self.errors)
        return OutputMismatch.exit_code if only_files else BrokenLedger.exit_code

    def to_json(self) -> dict[str, Any]:
        """The report as JSON-ready values."""
        branches = [{**asdict(branch), "ok": branch.ok} for branch in self.branches]
        return {"ok": self.ok, "branches": branches, "findings": [asdict(item) for item in self.findings]}

    def text(self) -> str:
        """The report for a person."""
        lines: list[str] = []
        for branch in self.branches:
            lines.append(f"{branch.name}: {branch.size} entries, {branch.state} ({branch.origin})")
            lines += [_runs_line(branch.runs)] if branch.runs else []
            lines += [f"  {finding.line()}" for finding in branch.findings]
        lines += [finding.line() for finding in self.findings]
        count = len(self.errors)
        verdict = "ledger verified" if self.ok else f"VERIFICATION FAILED: {count} error{'s'[: count != 1]}"
        return "\n".join([*lines, verdict])


def _runs_line(runs: Sequence[RunRecord]) -> str:
    """How many runs ended how, and the lowest tier of evidence for their order."""
    counts = {state: sum(run.status == state for run in runs) for state in ("ok", "failed", "open")}
    ended = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    tier = min(run.tier for run in runs)
    return f"  runs: {ended}; order of registration, start and result: {tier}"


def verify(root: Path, branches: Sequence[str] | None = None) -> Report:
    """Verify the named branches (default: all) of the project at ``root``.

    All branches are read, since starts and forks refer to each other; only the named ones are reported.
    Raises NoLedger when there is no branch, or not the one that was named.
    """
    known = branch_names(root)
    for name in branches or ():
        if name not in known:
            listed = ", ".join(known) or "none"
            raise NoLedger(f"there is no ledger branch {name!r} in {ledger_home(root)} (found: {listed})")
    if not known:
        raise NoLedger(f"there is no ledger in {ledger_home(root)}; type `ledger init` to open one, or pass --root")
    world = World({name: read_chain(branch_path(root, name)) for name in known})
    chosen = [name for name in known if branches is None or name in branches]
    general = [*_copies(world), *(check_published(root, world) if branches is None else ())]
    return Report(tuple(_branch(root, world, name) for name in chosen), tuple(general))


def _copies(world: World) -> Iterator[Finding]:
    for name, chain in world.chains.items():
        other = world.by_origin[chain.origin][0]
        if other != name:
            yield error("same_origin", None, f"the branches {name} and {other} are both {chain.origin}")


def _branch(root: Path, world: World, name: str) -> BranchReport:
    chain = world.chains[name]
    findings = list(chain.findings)
    if chain.sound:
        # A broken chain has said enough: what its entries claim about others is worth nothing.
        findings += check_accounting(world, name)
        findings += check_outputs(root, world, name)
        findings += check_configs(root, world, name)
    broken = any(item.level == "error" and item.code not in FILE_CODES for item in findings)
    return BranchReport(
        name=name,
        origin=chain.origin,
        size=len(chain.leaves),
        checkpoint=checkpoint_of(chain.origin, chain.leaves).text(),
        state=NOT_INTACT if broken else PINNED,
        findings=tuple(findings),
        runs=tuple(run_records(world, name)) if chain.sound else (),
    )
