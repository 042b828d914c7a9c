"""What figures take from cells: numbers by id, and rows of points with their error bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ridgefill.tables.grid import Cell

Cells = Mapping[str, Cell]


def ids(cells: Cells, table: str, parts: int) -> list[list[str]]:
    """Split ids of one table that have ``parts`` parts after its name, intervals left out."""
    split = (identity.split(".") for identity in cells if identity.startswith(f"{table}."))
    return [words[1:] for words in split if len(words) == parts + 1 and words[-1] not in ("low", "high")]


def value(cells: Cells, identity: str) -> float | None:
    """The unrounded number of a cell; None where it is absent or not measured."""
    cell = cells.get(identity)
    return None if cell is None or cell.value is None else float(cell.value)


def interval(cells: Cells, identity: str) -> tuple[float, float, float] | None:
    """A number with the ends of its interval, which are the number itself where it has none."""
    middle = value(cells, identity)
    if middle is None:
        return None
    low, high = (value(cells, f"{identity}.{end}") for end in ("low", "high"))
    return middle, middle if low is None else low, middle if high is None else high


def arms_of(middle: float, low: float, high: float) -> tuple[float, float]:
    """Lengths of the two arms of an error bar: a BCa interval need not hold the mean, an arm is never negative."""
    return max(0.0, middle - low), max(0.0, high - middle)


def points(cells: Cells, identities: Sequence[str]) -> tuple[list[int], list[float], list[list[float]]]:
    """Positions, values and two-sided error lengths of the cells that have a value."""
    where: list[int] = []
    values: list[float] = []
    errors: list[list[float]] = [[], []]
    for index, identity in enumerate(identities):
        found = interval(cells, identity)
        if found is None:
            continue
        where.append(index)
        values.append(found[0])
        for side, length in zip(errors, arms_of(*found), strict=True):
            side.append(length)
    return where, values, errors
