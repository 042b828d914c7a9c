"""The least of DER: the fields inside a value, without knowing what they mean."""

from __future__ import annotations

from typing import NamedTuple


class Field(NamedTuple):
    """One value: its identifier byte and its content."""

    tag: int
    content: bytes


def children(data: bytes) -> tuple[Field, ...]:
    """Split the content of a constructed value into its fields.

    Raises ValueError for bytes that end early and for identifiers of more than one byte.
    """
    fields, place = [], 0
    while place < len(data):
        tag, start = data[place], place + 2
        if tag & 0x1F == 0x1F or start > len(data):
            raise ValueError(f"no field at byte {place}")
        size = data[start - 1]
        if size & 0x80:
            size, start = int.from_bytes(data[start : start + (size & 0x7F)]), start + (size & 0x7F)
        place = start + size
        if place > len(data):
            raise ValueError(f"a field of {size} bytes at {start} is longer than what holds it")
        fields.append(Field(tag, data[start:place]))
    return tuple(fields)
