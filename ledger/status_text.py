"""``ledger status`` for a person: short tables, and one line that says what to type next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.hints import branch_option, run_hint
from ledger.views import printable

if TYPE_CHECKING:
    from ledger.status import BranchStatus, RegistrationStatus, Status

_WIDTH = 100


def status_text(status: Status) -> str:
    """The tables of every branch and the next command, in lines of at most 100 columns."""
    lines: list[str] = []
    for branch in status.branches:
        lines += [*_branch_lines(branch), ""]
    return "\n".join([*(_cut(printable(line)) for line in lines), f"next: {status.next}"])


def next_command(root: Path, branches: Sequence[BranchStatus]) -> str:
    """The most useful command: mend what is broken, close what is open, run what is waiting, then verify."""
    if any(branch.broken for branch in branches):
        return "ledger verify"
    for branch in branches:
        for start in branch.open:
            if start.holder is None:
                return f'ledger result {start.seq} --failed "why"{branch_option(branch.name)}'
    registrations = [item for branch in branches for item in branch.registrations]
    waiting = [item for item in registrations if item.never_started]
    for item in waiting:
        if item.state == "standing":
            return run_hint(root, item.experiment, item.never_started[0])
    standing = {item.claim for item in registrations if item.state == "standing"}
    for item in waiting:
        if item.state in ("drifted", "overdue") and item.claim not in standing:
            return f"ledger register {item.claim}"
    return "ledger verify" if registrations else "ledger register CLAIM.yaml"


def _branch_lines(branch: BranchStatus) -> Iterator[str]:
    count = f"{branch.size} entr{'y' if branch.size == 1 else 'ies'}"
    yield f"{branch.name}  {count}, the last of {_time(branch.last)}"
    yield f"  origin         {branch.origin}"
    if branch.parent is not None:
        yield f"  stands on      {branch.parent[0]} at {branch.parent[1]} entries"
    if branch.checkpoint is None:
        yield "  checkpoint     none, so the end is not pinned"
    else:
        yield f"  checkpoint     at {branch.checkpoint} entries; {branch.size - branch.checkpoint} lie beyond it"
    if branch.broken is not None:
        yield f"  BROKEN         {branch.broken}"
        return
    states = [item.state for item in branch.registrations]
    yield f"  registrations  {_counts([(state, states.count(state)) for state in dict.fromkeys(states)])}"
    working = sum(start.holder is not None for start in branch.open)
    ended = [("ok", branch.ok), ("failed", branch.failed)]
    yield f"  runs           {_counts([*ended, ('running', working), ('without result', len(branch.open) - working)])}"
    yield from _table(["REGISTRATION", "STATE", "NEVER STARTED", ""], [_row(item) for item in branch.registrations])
    rows = [
        [f"#{item.seq}", _time(item.since), item.run, item.holder or "no result, and nobody works on it here"]
        for item in branch.open
    ]
    yield from _table(["START", "SINCE", "RUN", ""], rows)


def _row(item: RegistrationStatus) -> list[str]:
    return [f"#{item.seq} {item.experiment}", item.state, ", ".join(item.never_started) or "-", item.why]


def _counts(counts: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{count} {state}" for state, count in counts if count) or "none"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Columns as wide as they need to be, up to 32, but the last, which takes what is left."""
    if not rows:
        return
    cells = [[_cut(cell, 32) for cell in row[:-1]] + [row[-1]] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head) - 1)]
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        yield ("  " + "  ".join([*padded, row[-1]])).rstrip()


def _time(text: str) -> str:
    return text.replace("T", " ").rstrip("Z") + " UTC" if text else "-"


def _cut(line: str, width: int = _WIDTH) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"
