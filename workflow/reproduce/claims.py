"""Claim by claim, prediction by prediction: what was expected, what was found, how far from the threshold it lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ledger.entry import Entry
from ledger.errors import ClaimError
from ledger.registration import stored_claim
from ledger.rules import Verdict
from ledger.verdicts import Decided
from ridgefill.errors import ResultsError
from ridgefill.results import read_json
from ridgefill.tables.verdicts import condition_words
from workflow.reproduce.evidence import PUBLISHED, Evidence

NOT_PUBLISHED = "nothing"


@dataclass(frozen=True)
class Condition:
    """One comparison. ``margin``: how far the number lies on the side that meets it; negative when it is not met."""

    words: str
    found: float | None
    n: int | None
    status: str
    margin: float | None
    outcome: str


@dataclass(frozen=True)
class Predicted:
    """One prediction. ``rule`` is the registered rule, ``joined`` how its conditions combine."""

    id: str
    says: str
    rule: str
    joined: str
    conditions: tuple[Condition, ...]
    verdict: str
    published: str
    reason: str


@dataclass(frozen=True)
class ClaimFound:
    """One registration with its evidence of order, and its predictions as they fell."""

    experiment: str
    title: str
    hypothesis: str
    seq: int
    time: str
    grade: str
    tier: str
    state: str
    predictions: tuple[Predicted, ...]


def claims_found(evidence: Evidence) -> tuple[ClaimFound, ...]:
    """Every registration of the published ledger, also those that predict nothing. Raises ResultsError."""
    return tuple(_claim(evidence, entry) for entry in evidence.registrations)


def _claim(evidence: Evidence, entry: Entry) -> ClaimFound:
    try:
        claim = stored_claim(entry)
    except ClaimError as error:
        raise ResultsError(f"the claim of entry #{entry.seq} cannot be read: {error}") from error
    if claim is None:
        raise ResultsError(f"the body of entry #{entry.seq} is withheld; the claims can be checked in the full ledger")
    decided = next((item for item in evidence.report.decided if item.version.leaf == entry.leaf), None)
    runs = [run for run in evidence.report.runs if run.registration == f"main#{entry.seq}"]
    ended = sum(run.status == "ok" for run in runs)
    tier = min((run.tier for run in runs if run.status == "ok"), default="T0")
    return ClaimFound(
        claim.experiment, claim.title, claim.hypothesis.strip(), entry.seq, entry.time, str(entry.header["grade"]),
        tier, f"{ended} of {len(runs)} runs ended well" if runs else "never run",
        _predictions(evidence, decided) if decided is not None else (),
    )  # fmt: skip


def _predictions(evidence: Evidence, decided: Decided) -> tuple[Predicted, ...]:
    printed = _published(evidence.root / PUBLISHED / decided.experiment / "verdicts.json")
    return tuple(
        Predicted(
            verdict.id,
            decided.says[verdict.id],
            decided.rules[verdict.id],
            _joined(decided.rules[verdict.id]),
            _conditions(verdict),
            verdict.verdict,
            printed.get(verdict.id, NOT_PUBLISHED),
            verdict.reason,
        )
        for verdict in decided.verdicts
    )


def _published(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    rows: Any = read_json(path)
    try:
        return {str(row["id"]): str(row["verdict"]) for row in rows}
    except (TypeError, KeyError) as error:
        raise ResultsError(f"{path} is no list of verdicts; restore it from the repository") from error


def _joined(rule: str) -> str:
    return next((f"{how} of" for how in ("all", "any") if rule.startswith(f"{how}(")), "")


def _conditions(verdict: Verdict) -> tuple[Condition, ...]:
    return tuple(
        Condition(condition_words(row), row["value"], row["n"], str(row["status"]), _margin(row), str(row["outcome"]))
        for row in verdict.values
    )


def _margin(row: Mapping[str, Any]) -> float | None:
    if row["value"] is None:
        return None
    # As the rule compares them: the shortest decimal that names the float, and the threshold as it is written.
    over = Decimal(repr(row["value"])) - Decimal(row["threshold"])
    return float(over if row["op"].startswith(">") else -over)
