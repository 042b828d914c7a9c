"""``python -m workflow.reproduce.artifact``: the counted part of docs/artifact.md, from the ledger and the results."""

from __future__ import annotations

import re
import sys
from collections import Counter
from datetime import datetime
from pathlib import Path

from ledger.errors import LedgerError
from ridgefill.errors import ResultsError, RidgeFillError
from ridgefill.files import write_text
from ridgefill.results import read_json
from workflow.reproduce.claims import ClaimFound, claims_found
from workflow.reproduce.evidence import PUBLISHED, Evidence, gather

PAGE = Path("docs/artifact.md")
MARKS = ("<!-- counted by python -m workflow.reproduce.artifact: begin -->", "<!-- counted: end -->")


def counted(evidence: Evidence) -> str:
    """The table of claims and the counts that a reproduction must end with, as Markdown."""
    claims = claims_found(evidence)
    lines = [
        "| Claim | Registered | Grade | Order | Predictions | Published numbers | Minutes from the model |",
        "|---|---|---|---|---|---:|---:|",
        *(_row(evidence, claim) for claim in claims),
    ]
    fell = Counter(each.verdict for claim in claims for each in claim.predictions)
    numbers = sum(_numbers(evidence, claim.experiment) for claim in claims)
    predictions = f"{sum(fell.values())} predictions ({_said(fell)})"
    said = f"{len(claims)} experiments; {numbers} published numbers, each to come out equal; {predictions}"
    lines += ["", f"In all {said}."]
    return "\n".join(lines)


def with_counted(page: str, block: str) -> str:
    """The page with the text between its marks replaced. Raises ResultsError when it has no marks."""
    begin, end = (re.escape(mark) for mark in MARKS)
    new, count = re.subn(f"{begin}.*{end}", lambda _: f"{MARKS[0]}\n{block}\n{MARKS[1]}", page, flags=re.DOTALL)
    if count != 1:
        raise ResultsError(f"{PAGE} has the marks of the counted part {count} times; expected once")
    return new


def _row(evidence: Evidence, claim: ClaimFound) -> str:
    fell = Counter(each.verdict for each in claim.predictions)
    places = (
        f"`{claim.experiment}`: {claim.title}",
        f"#{claim.seq}",
        claim.grade,
        claim.tier,
        _said(fell) or "none made",
        str(_numbers(evidence, claim.experiment) or "answers only"),
        f"{_minutes(evidence, claim.experiment):.0f}",
    )
    return "| " + " | ".join(place.replace("|", "\\|") for place in places) + " |"


def _said(fell: Counter[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in sorted(fell.items(), key=lambda item: -item[1]))


def _numbers(evidence: Evidence, experiment: str) -> int:
    path = evidence.root / PUBLISHED / experiment / "cells.json"
    return len(read_json(path)["cells"]) if path.is_file() else 0


def _minutes(evidence: Evidence, experiment: str) -> float:
    """How long the last successful attempt of each run took, by the times in the ledger."""
    entries = {entry.seq: entry for entry in evidence.world.chains["main"].entries}
    last = {run.run: run for run in evidence.report.runs if run.experiment == experiment and run.status == "ok"}
    seconds = 0.0
    for run in last.values():
        if run.result is not None:
            begun, ended = (datetime.fromisoformat(entries[seq].time) for seq in (run.start, run.result))
            seconds += (ended - begun).total_seconds()
    return seconds / 60


def main() -> int:
    """Entry point: rewrite the counted part of the page."""
    try:
        page = PAGE.read_text(encoding="utf-8")
        write_text(PAGE, with_counted(page, counted(gather(Path.cwd()))))
    except (RidgeFillError, LedgerError) as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: {PAGE} cannot be read ({error.strerror}); run from the project's root\n")
        return 1
    sys.stdout.write(f"{PAGE}: counted again\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
