"""Work that did not fit in a device's memory, done again in halves: fewer prompts together, then fewer arms.

Which rows share a matrix product can change their last bits, so every halving is kept with what it made, through
interruptions too, and the metadata of the run's files lists them under ``out_of_memory``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

Tables = Mapping[str, Sequence[Mapping[str, Any]]]
One = TypeVar("One")
NOTES = "out_of_memory"
"""Beside the tables of finished work: what was halved, one sentence each; not there when nothing was."""


def halving(make: Callable[[Sequence[One]], Tables], units: Sequence[One], what: str) -> Tables:
    """``make(units)``, or, when memory runs out, that of each half, joined in order.

    what: the units in words, such as ``prompts of niah-1024-0``. Raises torch's ``OutOfMemoryError`` when one unit
    alone does not fit. Every other error goes through.
    """
    from ridgefill.devices import unless_full

    made = unless_full(partial(make, units), last=len(units) < 2)
    if made is not None:
        return made
    middle = (len(units) + 1) // 2
    said = f"{len(units)} {what} did not fit in memory together and were done as {middle} and {len(units) - middle}"
    sys.stderr.write(f"{said}\n")
    return joined([halving(make, units[:middle], what), halving(make, units[middle:], what)], said)


def joined(parts: Sequence[Tables], said: str) -> Tables:
    """Tables one after the other, with a note."""
    names = dict.fromkeys(name for part in parts for name in part if name != NOTES)
    tables: dict[str, Any] = {name: [row for part in parts for row in part[name]] for name in names}
    return {**tables, NOTES: [said, *(note for part in parts for note in part.get(NOTES, ()))]}


def notes_of(finished: Sequence[Tables]) -> Iterator[str]:
    """All notes of finished work, in order."""
    for one in finished:
        yield from (str(note) for note in one.get(NOTES, ()))
