"""What the report step and its reproduction share: the notes that a page prints, and how a verdict is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger.rules import Verdict

NOTES = Path("workflow/report/notes.yaml")


def verdict_row(verdict: Verdict, says: str, rule: str) -> dict[str, Any]:
    """A row of ``verdicts.json``. says: the prediction in its author's words. rule: its rule in words."""
    return {
        "id": verdict.id,
        "says": says,
        "rule_text": rule,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "values": [dict(value) for value in verdict.values],
    }
