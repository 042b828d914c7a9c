"""Everything that a reproduction found, as one value, as one line of counts and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from workflow.reproduce.claims import ClaimFound
from workflow.reproduce.rebuild import Rebuilt

VERSION = 1
VERDICTS = ("supported", "refuted", "undecided", "deviated")


@dataclass(frozen=True)
class Outcome:
    """experiments: what was rebuilt. claims: how predictions fell. ledger: state of the chain. errors: of verify."""

    experiments: tuple[Rebuilt, ...]
    claims: tuple[ClaimFound, ...]
    ledger: str
    errors: tuple[str, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it is not reproduced. A refuted prediction is none; one that falls otherwise than published is."""
        fell = [
            f"{claim.experiment}: {each.id} is {each.verdict}, published was {each.published}"
            for claim in self.claims
            for each in claim.predictions
            if each.verdict != each.published
        ]
        return (*self.errors, *(text for one in self.experiments for text in one.problems), *fell)

    @property
    def exit_code(self) -> int:
        """0 when all is as published, else 1."""
        return 1 if self.problems else 0

    @property
    def counts(self) -> dict[str, int]:
        """What was rebuilt, compared and decided, counted."""
        compared = [one.cells for one in self.experiments if one.cells is not None]
        fell = Counter(each.verdict for claim in self.claims for each in claim.predictions)
        return {
            "experiments": len(self.experiments),
            "tables": sum(one.tables for one in self.experiments),
            "figures": sum(one.figures for one in self.experiments),
            "numbers_equal": sum(each.equal for each in compared),
            "numbers_close": sum(each.close for each in compared),
            "numbers_different": sum(len(each.different) for each in compared),
            "numbers_new": sum(sum(each.new_tables.values()) + sum(each.new_cells.values()) for each in compared),
            "numbers_recomputed": sum(sum(one.checked) for one in self.experiments),
            "answers_scored_again": sum(one.samples for one in self.experiments),
            "predictions": sum(fell.values()),
            **{name: fell[name] for name in VERDICTS},
            "problems": len(self.problems),
        }

    def last_line(self) -> str:
        """The one line that sums up."""
        counts = self.counts
        fell = ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])
        close = f" ({counts['numbers_close']} of them to the last bits)" if counts["numbers_close"] else ""
        said = "reproduced" if not self.problems else f"NOT REPRODUCED ({counts['problems']} problems)"
        return (
            f"{said}: {counts['experiments']} experiments, {counts['tables']} tables, {counts['figures']} figures; "
            f"{counts['numbers_equal'] + counts['numbers_close']} published numbers equal{close}, "
            f"{counts['numbers_different']} different, {counts['numbers_new']} new since; "
            f"{counts['numbers_recomputed']} numbers recomputed another way; "
            f"{counts['predictions']} predictions ({fell or 'none decided'}); "
            f"ledger {'verified' if not self.errors else 'NOT verified'}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON-ready values."""
        return {
            "version": VERSION,
            "reproduced": not self.problems,
            "counts": self.counts,
            "ledger": {"state": self.ledger, "errors": list(self.errors)},
            "problems": list(self.problems),
            "experiments": [asdict(one) for one in self.experiments],
            "claims": [asdict(one) for one in self.claims],
        }
