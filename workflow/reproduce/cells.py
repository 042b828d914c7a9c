"""The numbers of a rebuilt report held against those of the published one, cell by cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CLOSE = 1e-9
"""Share of its magnitude by which an unrounded number may differ: another processor may end a sum in another bit."""


@dataclass(frozen=True)
class CellDifference:
    """One number that was not rebuilt as published. ``by``: how far apart, None where they are no numbers."""

    cell: str
    what: str
    published: str
    rebuilt: str
    by: float | None

    def __str__(self) -> str:
        by = "" if self.by is None else f", {self.by:.3g} apart"
        return f"{self.cell}: {self.what} published {self.published}, rebuilt {self.rebuilt}{by}"


@dataclass(frozen=True)
class CellsCompared:
    """equal, close, reworded: numbers as published, to the last bit; within ``CLOSE``; equal, but printed otherwise.

    new_tables, new_cells: made since the report was published, a table's name -> its numbers.
    """

    equal: int
    close: int
    reworded: tuple[str, ...]
    different: tuple[CellDifference, ...]
    new_tables: Mapping[str, int]
    new_cells: Mapping[str, int]


def compare_cells(published: Mapping[str, Any], rebuilt: Mapping[str, Any]) -> CellsCompared:
    """Compare two ``cells.json`` documents. A published number that was not rebuilt is a difference."""
    ours, theirs = published["cells"], rebuilt["cells"]
    equal = close = 0
    reworded: list[str] = []
    different: list[CellDifference] = []
    for identity, cell in ours.items():
        again = theirs.get(identity)
        if again is None:
            different.append(CellDifference(identity, "number", str(cell["text"]), "not at all", None))
            continue
        found = _difference(identity, cell, again)
        if found is not None:
            different.append(found)
        elif cell["value"] != again["value"]:
            close += 1
        else:
            equal += 1
            if cell["text"] != again["text"]:
                reworded.append(identity)
    extra = Counter(identity.split(".", 1)[0] for identity in theirs if identity not in ours)
    return CellsCompared(
        equal,
        close,
        tuple(reworded),
        tuple(different),
        {name: count for name, count in extra.items() if name not in published["tables"]},
        {name: count for name, count in extra.items() if name in published["tables"]},
    )


def _difference(identity: str, cell: Mapping[str, Any], again: Mapping[str, Any]) -> CellDifference | None:
    for what in ("n", "status"):
        if cell[what] != again[what]:
            return CellDifference(identity, what, str(cell[what]), str(again[what]), None)
    one, other = cell["value"], again["value"]
    if one == other:
        return None
    if not (isinstance(one, int | float) and isinstance(other, int | float)):
        return CellDifference(identity, "value", str(one), str(other), None)
    by = abs(one - other)
    # A number that prints the same and differs in its last bits is the same number.
    if by <= CLOSE * max(1.0, abs(one)) and cell["text"] == again["text"]:
        return None
    return CellDifference(identity, "value", repr(one), repr(other), by)
