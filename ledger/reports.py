"""What ``verify`` and ``verdicts`` say, as values, as text for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ledger.artifacts import FILE_CODES
from ledger.custody import Vouched
from ledger.errors import BrokenLedger, OutputMismatch
from ledger.findings import Finding
from ledger.runs import RunRecord
from ledger.verdicts import Decided

UNPINNED = "prefix intact, end not pinned"
NOT_INTACT = "not intact"


@dataclass(frozen=True)
class BranchReport:
    """One branch: its size, its checkpoint text (with the root), what was found, its runs and verdicts."""

    name: str
    origin: str
    size: int
    checkpoint: str
    state: str
    findings: tuple[Finding, ...]
    runs: tuple[RunRecord, ...]
    decided: tuple[Decided, ...]
    vouched: tuple[Vouched, ...]

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.level != "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The branch as JSON-ready values."""
        return {
            "name": self.name,
            "origin": self.origin,
            "size": self.size,
            "checkpoint": self.checkpoint,
            "state": self.state,
            "ok": self.ok,
            "findings": [asdict(item) for item in self.findings],
            "runs": [asdict(item) for item in self.runs],
            "verdicts": [decided_json(item) for item in self.decided],
            "vouched": [asdict(item) for item in self.vouched],
        }


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
        branches = [branch.to_json() for branch in self.branches]
        return {"ok": self.ok, "branches": branches, "findings": [asdict(item) for item in self.findings]}

    def text(self) -> str:
        """The report for a person."""
        lines: list[str] = []
        for branch in self.branches:
            lines.append(f"{branch.name}: {branch.size} entries, {branch.state} ({branch.origin})")
            lines += [_runs_line(branch.runs)] if branch.runs else []
            lines += [_verdicts_line(item) for item in branch.decided]
            lines += [f"  {finding.line()}" for finding in branch.findings]
        lines += [finding.line() for finding in self.findings]
        count = len(self.errors)
        verdict = "ledger verified" if self.ok else f"VERIFICATION FAILED: {count} error{'s'[: count != 1]}"
        return "\n".join([*lines, verdict])


def pinned_state(size: int, vouched: Sequence[Vouched]) -> str:
    """What is known of the end of a sound chain: whether a signature vouches that nothing was cut off."""
    mine = max((item for item in vouched if item.outside), key=lambda item: item.size, default=None)
    signed = [item for item in vouched if item.signers and not item.outside]
    named = max(signed, key=lambda item: item.size, default=None)
    parts = []
    if mine is not None:
        whose = "your key" if len(mine.signers) == 1 else "your key among them"
        parts.append(f"pinned up to entry {mine.size - 1} of {size - 1} by {', '.join(mine.signers)} ({whose})")
    # A signature by a key that only the ledger names must never hide how far the verifier's own key goes.
    if named is not None and (mine is None or named.size > mine.size):
        by = ", ".join(named.signers)
        parts.append(f"pinned up to entry {named.size - 1} of {size - 1} by {by} (a key the ledger names)")
    return ", ".join(["prefix intact", *parts]) if parts else UNPINNED


def _runs_line(runs: Sequence[RunRecord]) -> str:
    """How many runs ended how, and the lowest tier of evidence for their order."""
    counts = {state: sum(run.status == state for run in runs) for state in ("ok", "failed", "open")}
    ended = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    tier = min(run.tier for run in runs)
    return f"  runs: {ended}; order of registration, start and result: {tier}"


def _verdicts_line(item: Decided) -> str:
    """The verdicts of one registration, counted."""
    names = [verdict.verdict for verdict in item.verdicts]
    counts = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names))
    how = "recomputed" if item.measured_by else "not measured"
    grade = item.version.header["grade"]
    return f"  verdicts of {item.experiment} (#{item.version.seq} of {item.registered_on}, {grade}): {counts}; {how}"


def decided_json(item: Decided) -> dict[str, Any]:
    """The verdicts of one registration as JSON-ready values."""
    return {
        "experiment": item.experiment,
        "branch": item.branch,
        "registered": {
            "branch": item.registered_on,
            "seq": item.version.seq,
            "leaf": item.version.leaf,
            "time": item.version.time,
            "grade": item.version.header["grade"],
            "first": item.registered.seq,
        },
        "tier": item.tier,
        "runs": [asdict(run) for run in item.runs],
        "configs": [{"path": path, "sha256": sha256} for path, sha256 in item.configs],
        "files": [{"path": path, "sha256": sha256} for path, sha256 in item.files],
        "measured_by": item.measured_by,
        "deviation": item.deviation,
        "verdicts": [
            {**asdict(verdict), "says": item.says[verdict.id], "rule": item.rules[verdict.id]}
            for verdict in item.verdicts
        ],
    }


def decided_page(item: Decided, times: dict[int, str]) -> str:
    """Everything behind the verdicts of one registration, for a person. ``times``: of entries of its branch."""
    count = len(item.verdicts)
    lines = [
        f"{item.experiment}: {count} prediction{'s'[: count != 1]}, measured by {item.measured_by or 'nothing'}",
        f"  registered  #{item.version.seq} of {item.registered_on}, {item.version.time}, "
        f"{item.version.header['grade']}; order shown: {item.tier}",
    ]
    if item.deviation:
        lines.append(f"  DEVIATED    {item.deviation}")
    for run in item.runs:
        result = "no result" if run.result is None else f"{run.status} #{run.result} {times.get(run.result, '')}"
        name = f"{run.run} {run.label}".rstrip()
        lines.append(f"  run         {name}: start #{run.start} {times.get(run.start, '')}, {result}, {run.tier}")
    lines += [f"  from        {sha256}  {path}" for path, sha256 in item.configs]
    lines += [f"  measured    {sha256}  {path}" for path, sha256 in item.files]
    for verdict in item.verdicts:
        lines += [
            f"  {verdict.id:<11} {verdict.verdict.upper()}: {item.says[verdict.id]}",
            f"              {verdict.reason}",
        ]
    return "\n".join(lines)


def unrun_lines(branch: BranchReport) -> list[str]:
    """Registrations of a branch that were never run, in whole or in part, and starts without a result."""
    open_ones = [item for item in branch.findings if item.code in ("never_run", "orphaned_start")]
    withheld = sum(item.code == "withheld" for item in branch.findings)
    lines = [f"registered and never run, or started and never closed: {len(open_ones) or 'none'}"]
    lines += [f"  #{item.seq}: {item.message}" for item in open_ones]
    if withheld:
        lines.append(f"  {withheld} bodies are withheld; what they hold is not counted here")
    return lines
