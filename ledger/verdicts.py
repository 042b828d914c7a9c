"""Every verdict again: each prediction of each registration decided by its rule from the recorded results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ledger.artifacts import Output, results_folder, standing_outputs
from ledger.claims import Claim
from ledger.entry import Entry
from ledger.errors import ClaimError, FormatError, LedgerError
from ledger.files import hash_file, inside
from ledger.findings import Finding, error, note
from ledger.history import History
from ledger.measures import find_lookup
from ledger.rules import Lookup, Verdict, decide, rule_text
from ledger.runs import RunRecord
from ledger.world import World

VERDICTS = "verdicts.json"


@dataclass(frozen=True)
class Decided:
    """The verdicts of one registration's results on one branch, and everything they rest on.

    ``registered`` and ``version`` are entries of branch ``registered_on``; ``runs`` the starts under them on
    ``branch``; ``configs`` and ``files`` (path, hex SHA-256) the pinned and the measured bytes; ``deviation``
    says why every verdict is ``deviated``, or is empty.
    """

    branch: str
    experiment: str
    registered_on: str
    registered: Entry
    version: Entry
    runs: tuple[RunRecord, ...]
    configs: tuple[tuple[str, str], ...]
    files: tuple[tuple[str, str], ...]
    measured_by: str
    deviation: str
    says: Mapping[str, str]
    rules: Mapping[str, str]
    verdicts: tuple[Verdict, ...]

    @property
    def tier(self) -> str:
        """The lowest tier of evidence of order among the runs that ended well."""
        return min((run.tier for run in self.runs if run.status == "ok"), default="T0")


def decide_branch(root: Path, world: World, branch: str, runs: Sequence[RunRecord]) -> Iterator[Decided]:
    """Decide every registration with predictions of which a run ended well on ``branch``."""
    outputs = standing_outputs(world, branch)
    by_start = {run.start: run for run in runs}
    for name, history in world.registrations:
        here = {start.seq for where, start in world.starts_under(history) if where == branch}
        mine = tuple(by_start[seq] for seq in sorted(here & by_start.keys()))
        if not any(run.status == "ok" for run in mine):
            continue
        version = _last_run_version(world, branch, history, mine)
        try:
            claim = world.claim_of(version)
        except ClaimError:
            continue  # reported where the version stands
        if claim is not None and claim.predictions:
            base = Decided(
                branch=branch,
                experiment=claim.experiment,
                registered_on=name,
                registered=history.registration,
                version=version,
                runs=mine,
                configs=tuple((item["path"], item["sha256"]) for item in (version.body or {})["configs"]),
                files=(),
                measured_by="",
                deviation=_deviation(world, history),
                says={item.id: item.says for item in claim.predictions},
                rules={item.id: rule_text(item.rule) for item in claim.predictions},
                verdicts=(),
            )
            yield _decided(root, base, claim, outputs, _named(world, branch, here))


def _named(world: World, branch: str, starts: set[int]) -> dict[str, set[int]]:
    """Path -> results of ``starts`` that ended well and name it."""
    named: dict[str, set[int]] = {}
    for entry in (result for seq in starts for result in world.results(branch).get(seq, ())):
        body = entry.body or {}
        if body["status"] == "ok":
            for item in body["outputs"]:
                named.setdefault(item["path"], set()).add(entry.seq)
    return named


def _last_run_version(world: World, branch: str, history: History, runs: Sequence[RunRecord]) -> Entry:
    """The latest version that a run of ``branch`` names: the one whose predictions are decided."""
    last = max(run.start for run in runs)
    start = world.entry(branch, last)
    leaf = ((start.body if start else None) or {})["registration"]["leaf"]
    return next(version for version in history.versions if version.leaf == leaf)


def _deviation(world: World, history: History) -> str:
    """Why verdicts under a registration are deviated: it was amended after one of its runs had started."""
    old = [
        f"#{start.seq} of {name}"
        for version in history.versions[:-1]
        for name, start in world.starts.get(version.leaf, ())
    ]
    if not old:
        return ""
    return f"amended by #{history.current.seq} although {', '.join(old)} had started under what it was before"


def _decided(
    root: Path,
    base: Decided,
    claim: Claim,
    outputs: Mapping[tuple[str, str], Output],
    named: Mapping[str, set[int]],
) -> Decided:
    folder = results_folder(root, base.branch, claim.experiment)
    standing = {path: outputs[claim.experiment, path] for path in named}
    files = {path: output.sha256 for path, output in standing.items() if output.result in named[path]}
    tables = {path: sha256 for path, sha256 in files.items() if path.endswith(".parquet")}
    problem = _unusable(folder, tables, sorted(named.keys() - files.keys()))
    provider, lookup = ("", _nothing(problem)) if problem else _measures(folder, sorted(tables))
    verdicts = tuple(decide(prediction, lookup) for prediction in claim.predictions)
    if problem:
        # The recorded numbers exist, only not here: no policy for missing numbers may decide that.
        verdicts = tuple(replace(verdict, verdict="undecided") for verdict in verdicts)
    if base.deviation:
        verdicts = tuple(_deviated(verdict, base.deviation) for verdict in verdicts)
    return replace(base, files=tuple(sorted(tables.items())), measured_by=provider, verdicts=verdicts)


def _deviated(verdict: Verdict, why: str) -> Verdict:
    alone = f"the rule alone says {verdict.verdict}: {verdict.reason}"
    return replace(verdict, verdict="deviated", reason=f"{why}; {alone}")


def _unusable(folder: Path, tables: Mapping[str, str], replaced: Sequence[str]) -> str:
    """Why the recorded Parquet outputs cannot be measured as they lie there, or nothing."""
    if replaced:
        return f"its output {replaced[0]} was replaced by that of another registration's run"
    for path, sha256 in sorted(tables.items()):
        try:
            found = hash_file(inside(folder, path))[0]
        except OSError:
            return f"its output {path} is not here"
        except FormatError as failure:
            return str(failure)
        if found != sha256:
            return f"its output {path} has other bytes than recorded"
    return ""


def _measures(folder: Path, files: Sequence[str]) -> tuple[str, Lookup]:
    try:
        found = find_lookup(folder, files)
    except LedgerError as failure:
        return "", _nothing(str(failure))
    if found is None:
        return "", _nothing("no installed provider of measures can read its outputs")
    provider, lookup = found

    def answered(metric: str, arm: str, baseline: str | None, where: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return lookup(metric, arm, baseline, where)
        except LedgerError as failure:
            return {"n": None, "status": str(failure)}

    return provider, answered


def _nothing(why: str) -> Lookup:
    """A look-up that has no number, and says why."""

    def lookup(metric: str, arm: str, baseline: str | None, where: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"n": None, "status": why}

    return lookup


def check_published_verdicts(root: Path, world: World, decided: Sequence[Decided]) -> Iterator[Finding]:
    """Compare the ``verdicts.json`` that lies among results with what was decided here."""
    entries = [entry for chain in world.chains.values() for entry in chain.entries]
    # A start or an amendment that is withheld may be why a verdict was published as deviated.
    withheld = any(entry.kind in ("start", "amend") and entry.body is None for entry in entries)
    for item in decided:
        path = results_folder(root, item.branch, item.experiment) / VERDICTS
        if not path.is_file():
            continue
        if not item.measured_by:
            why = item.verdicts[0].reason
            yield note("verdicts_unchecked", item.registered.seq, f"{item.experiment}: {why}")
            continue
        try:
            printed = {row["id"]: row["verdict"] for row in json.loads(path.read_bytes())}
        except (OSError, ValueError, TypeError, KeyError):
            yield error("wrong_verdict", item.registered.seq, f"{item.experiment}/{VERDICTS} cannot be read")
            continue
        for verdict in item.verdicts:
            said = printed.pop(verdict.id, "nothing")
            if said == "deviated" and said != verdict.verdict and withheld:
                message = f"{item.experiment}: {verdict.id} is said to have deviated; what shows it may be withheld"
                yield note("verdicts_unchecked", item.registered.seq, message)
            elif said != verdict.verdict:
                message = f"{item.experiment}/{VERDICTS} says {said} for {verdict.id}, its rule gives {verdict.verdict}"
                yield error("wrong_verdict", item.registered.seq, message)
        for name in printed:
            message = f"{item.experiment}/{VERDICTS} has {name}, which the claim does not predict"
            yield error("wrong_verdict", item.registered.seq, message)
