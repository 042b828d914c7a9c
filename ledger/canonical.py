"""One value, one byte string: RFC 8785 (JCS) without floats, and a parser that accepts nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import rfc8785

from ledger.errors import FormatError

SAFE_INTEGER = 2**53 - 1


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of ``value``.

    Only objects with text keys, arrays, text, integers within +-(2**53 - 1), booleans and null are
    allowed. Raises FormatError (``float``, ``bad_number``, ``bad_text``, ``bad_json``) otherwise.
    """
    try:
        _refuse_foreign(value)
        return rfc8785.dumps(value)
    except RecursionError:
        raise FormatError("bad_json", "found values nested too deeply, expected a few levels") from None
    except (rfc8785.CanonicalizationError, UnicodeError) as error:
        raise FormatError("bad_text", f"found text that is not Unicode ({error})") from None


def parse_strict(data: bytes) -> Any:
    """Parse ``data`` and require it to be exactly ``canonical(value)``.

    Raises FormatError with one of the codes ``not_utf8``, ``bad_json``, ``duplicate_key``, ``float``,
    ``bad_number``, ``bad_text``, ``not_canonical``.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("not_utf8", f"found bytes that are not UTF-8 at offset {error.start}") from None
    value = _parse_ascii(text)
    if value is not None:
        return value
    try:
        value = json.loads(
            text, object_pairs_hook=_unique_keys, parse_float=_refuse_float, parse_constant=_refuse_float
        )
    except (ValueError, RecursionError) as error:
        raise FormatError("bad_json", f"found bytes that are not JSON ({error})") from None
    if canonical(value) != data:
        raise FormatError(
            "not_canonical",
            "found JSON in another spelling than RFC 8785 (spacing, key order, escapes or line endings)",
        )
    return value


def _parse_ascii(text: str) -> Any:
    """Parse ASCII text that is canonical beyond doubt; None when it is not, or needs a closer look.

    Python's own writer gives the RFC 8785 bytes for ASCII without floats (other keys it sorts by code point
    instead of UTF-16 unit), and is many times faster. A duplicate key does not come out as it went in.
    """
    if not text.isascii():
        return None
    try:
        value = json.loads(text, parse_float=_refuse_float, parse_constant=_refuse_float, parse_int=_small_integer)
        same = _WRITER.encode(value) == text
    except (ValueError, RecursionError, FormatError):
        return None
    return value if same else None


_WRITER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _small_integer(text: str) -> int:
    value = int(text) if len(text) <= 17 else SAFE_INTEGER + 1
    if abs(value) > SAFE_INTEGER:
        raise FormatError("bad_number", f"found the integer {text}, expected at most 2**53 - 1")
    return value


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise FormatError("duplicate_key", f"found the key {key!r} twice in one object")
        result[key] = value
    return result


def _refuse_float(text: str) -> NoReturn:
    raise FormatError("float", f"found the number {text}, expected integers or decimal text in quotes")


def _refuse_foreign(value: Any) -> None:
    if value is None or isinstance(value, str | bool):
        return
    if isinstance(value, int):
        if abs(value) > SAFE_INTEGER:
            raise FormatError("bad_number", f"found the integer {value}, expected at most 2**53 - 1")
    elif isinstance(value, float):
        raise FormatError("float", f"found the number {value!r}, expected integers or decimal text in quotes")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise FormatError("bad_json", f"found the key {key!r}, expected text")
            _refuse_foreign(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_foreign(item)
    else:
        raise FormatError("bad_json", f"found a {type(value).__name__}, expected a JSON value")
