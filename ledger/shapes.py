"""Small checkers from which the shapes of headers and bodies are composed.

A checker is called with a value and the place it was found and raises FormatError: ``unknown_field``,
``missing_field`` or ``bad_value``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from ledger.errors import FormatError

Check = Callable[[Any, str], None]


def _bad(where: str, found: Any, expected: str) -> FormatError:
    return FormatError("bad_value", f"{where}: found {found!r}, expected {expected}")


def text(value: Any, where: str) -> None:
    """Any text."""
    if not isinstance(value, str):
        raise _bad(where, value, "text")


def sentence(value: Any, where: str) -> None:
    """Text with something in it."""
    if not isinstance(value, str) or not value.strip():
        raise _bad(where, value, "a sentence")


def matching(pattern: str, expected: str) -> Check:
    """Text that matches ``pattern`` from end to end."""
    compiled = re.compile(pattern)

    def check(value: Any, where: str) -> None:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise _bad(where, value, expected)

    return check


def natural(value: Any, where: str) -> None:
    """An integer that is not negative (booleans are not integers here)."""
    if type(value) is not int or value < 0:
        raise _bad(where, value, "an integer of at least 0")


def boolean(value: Any, where: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise _bad(where, value, "true or false")


def anything(value: Any, where: str) -> None:
    """A value another module checks."""


def one_of(*allowed: Any) -> Check:
    """One of a closed list of constants."""

    def check(value: Any, where: str) -> None:
        if not any(type(value) is type(item) and value == item for item in allowed):
            raise _bad(where, value, "one of " + ", ".join(map(repr, allowed)))

    return check


def nullable(inner: Check) -> Check:
    """Null, or what ``inner`` accepts."""

    def check(value: Any, where: str) -> None:
        if value is not None:
            inner(value, where)

    return check


def array(inner: Check) -> Check:
    """A list of what ``inner`` accepts."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, list):
            raise _bad(where, value, "a list")
        for index, item in enumerate(value):
            inner(item, f"{where}[{index}]")

    return check


def table(key: Check, inner: Check) -> Check:
    """An object with free keys."""

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _bad(where, value, "an object")
        for name, item in value.items():
            key(name, f"{where} key")
            inner(item, f"{where}.{name}")

    return check


def record(fields: Mapping[str, Check]) -> Check:
    """An object with exactly the given fields."""
    known = fields.keys()

    def check(value: Any, where: str) -> None:
        if not isinstance(value, dict):
            raise _bad(where, value, "an object")
        if unknown := sorted(value.keys() - known):
            raise FormatError(
                "unknown_field", f"{where}: found the field {unknown[0]!r}, expected only {', '.join(fields)}"
            )
        for name, inner in fields.items():
            if name not in value:
                raise FormatError("missing_field", f"{where}: the field {name!r} is missing")
            inner(value[name], f"{where}.{name}")

    return check


_UTC_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def utc_time(value: Any, where: str) -> None:
    """A real moment spelled like 2026-01-31T23:59:59Z."""
    if not isinstance(value, str) or not _UTC_TIME.fullmatch(value):
        raise _bad(where, value, "a UTC time like 2026-01-31T23:59:59Z")
    try:
        datetime.fromisoformat(value)
    except ValueError:
        raise _bad(where, value, "a UTC time that exists") from None


sha256 = matching("[0-9a-f]{64}", "64 lower-case hex digits")
origin = matching(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}", "an origin of letters, digits and . _ / -")
name = matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "a name of letters, digits and . _ -")
