"""What a check has to say: errors break verification, warnings and notes do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ledger.errors import BrokenLedger, FormatError

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One sentence about one place; ``code`` is stable, ``seq`` is None when no entry is meant."""

    level: Level
    code: str
    seq: int | None
    message: str

    def line(self) -> str:
        """Human spelling: ``error wrong_prev #00000003: ...``."""
        place = "" if self.seq is None else f" #{self.seq}"
        return f"{self.level} {self.code}{place}: {self.message}"


def error(code: str, seq: int | None, message: str) -> Finding:
    """A finding that makes verification fail."""
    return Finding("error", code, seq, message)


def warning(code: str, seq: int | None, message: str) -> Finding:
    """A finding a reader should look at."""
    return Finding("warning", code, seq, message)


def note(code: str, seq: int | None, message: str) -> Finding:
    """A finding that only informs."""
    return Finding("note", code, seq, message)


def from_format(failure: FormatError, seq: int | None) -> Finding:
    """The finding for a violated format rule."""
    return error(failure.code, seq, str(failure))


def refuse_errors(name: str, findings: Sequence[Finding]) -> None:
    """Raise BrokenLedger when ``findings`` hold an error; the message gives the first."""
    errors = [finding for finding in findings if finding.level == "error"]
    if errors:
        raise BrokenLedger(
            f"the ledger {name} does not verify ({errors[0].line()}); "
            "type `ledger verify` for the whole list and restore the entries before going on"
        )
