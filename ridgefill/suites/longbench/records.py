"""JSON from outside, field by field: what is not of the expected kind is a TextError that says where."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ridgefill.errors import TextError


def read_whole(path: Path, what: str) -> bytes:
    """The bytes of the user's file ``path``, which should be (in) ``what``."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise TextError(f"no file at {path}; set its path in the configuration to {what}") from None
    except (OSError, ValueError) as error:
        raise TextError(
            f"{path} could not be read ({getattr(error, 'strerror', None) or error}); expected {what}"
        ) from None


def load(data: bytes, where: str) -> object:
    """Parsed JSON in UTF-8."""
    try:
        loaded: object = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise TextError(f"{where} is not valid JSON in UTF-8 ({reason:.160}); get the official file again") from None
    return loaded


def record(value: object, where: str) -> Mapping[str, object]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise TextError(f"{where} holds {type(value).__name__}, expected a JSON object of fields")
    return value


def text(fields: Mapping[str, object], name: str, where: str) -> str:
    """A string that can be written as UTF-8."""
    value = _field(fields, name, where)
    if not isinstance(value, str):
        raise TextError(f"{where} has {name} of type {type(value).__name__}, expected a string")
    return _unicode(value, name, where)


def texts(fields: Mapping[str, object], name: str, where: str) -> tuple[str, ...]:
    """A list of strings."""
    value = _field(fields, name, where)
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise TextError(f"{where} has {name} = {value!r:.80}, expected a list of strings")
    return tuple(_unicode(entry, name, where) for entry in value)


def number(fields: Mapping[str, object], name: str, where: str) -> int:
    """A whole number from 0."""
    value = _field(fields, name, where)
    if type(value) is not int or value < 0:
        raise TextError(f"{where} has {name} = {value!r:.80}, expected a whole number from 0")
    return value


def choice(fields: Mapping[str, object], name: str, allowed: Sequence[str], where: str) -> str:
    """One of the ``allowed`` strings."""
    value = text(fields, name, where)
    if value not in allowed:
        raise TextError(f"{where} has {name} {value!r:.80}, expected one of {', '.join(allowed)}")
    return value


def _field(fields: Mapping[str, object], name: str, where: str) -> object:
    if name not in fields:
        raise TextError(f"{where} lacks the field {name!r}; get the official file again")
    return fields[name]


def _unicode(value: str, name: str, where: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise TextError(f"{where} has half of a surrogate pair in {name}, expected Unicode text") from None
    return value
