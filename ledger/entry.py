"""One entry: a public header, and a body that the header commits to with a salt.

The header is eight fields in RFC 8785 bytes. The body repeats ``origin`` and ``time``, so even the last
entry, which no later ``prev`` covers yet, cannot be changed in one place unnoticed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ledger import shapes
from ledger.bodies import BODY_CHECKS
from ledger.canonical import parse_strict
from ledger.errors import FormatError

VERSION = 1
SALT_BYTES = 32
GRADES = ("confirmatory", "no_prediction", "follow_up")
GRADED = ("register", "amend")
_BODY_TAG = b"ledger/1/body"

_header = shapes.record(
    {
        "version": shapes.one_of(VERSION),
        "origin": shapes.origin,
        "seq": shapes.natural,
        "prev": shapes.nullable(shapes.sha256),
        "kind": shapes.name,
        "time": shapes.utc_time,
        "grade": shapes.nullable(shapes.one_of(*GRADES)),
        "body_commit": shapes.sha256,
    }
)


@dataclass(frozen=True)
class Entry:
    """A verified entry.

    ``leaf`` is the hex RFC 6962 leaf hash of the stored header bytes; ``body`` is None when withheld.
    """

    seq: int
    leaf: str
    header: Mapping[str, Any]
    body: Mapping[str, Any] | None

    @property
    def kind(self) -> str:
        """``genesis``, ``fork``, ``register``, ``amend``, ``void``, ``start``, ``result`` or ``key``."""
        return str(self.header["kind"])

    @property
    def time(self) -> str:
        """The UTC time the writer's clock showed; a claim, never used for order."""
        return str(self.header["time"])


def body_commitment(salt: bytes, body: bytes) -> str:
    """Hex SHA-256 over tag, 0x00, 32-byte salt and body bytes."""
    return hashlib.sha256(_BODY_TAG + b"\x00" + salt + body).hexdigest()


def parse_header(data: bytes) -> dict[str, Any]:
    """Parse stored header bytes strictly; FormatError names the first violated rule."""
    value = parse_strict(data)
    if isinstance(value, dict) and type(value.get("version")) is int and value["version"] != VERSION:
        raise FormatError("bad_version", f"found format version {value['version']}, expected {VERSION}")
    _header(value, "header")
    if value["kind"] not in BODY_CHECKS:
        raise FormatError("unknown_kind", f"found the kind {value['kind']!r}, expected one of {', '.join(BODY_CHECKS)}")
    if (value["grade"] is not None) != (value["kind"] in GRADED):
        raise FormatError("bad_value", f"found grade {value['grade']!r} on a {value['kind']} entry")
    header: dict[str, Any] = value
    return header


def parse_salt(data: bytes) -> bytes:
    """Parse a salt file: exactly 64 lower-case hex digits."""
    if not re.fullmatch(rb"[0-9a-f]{64}", data):
        raise FormatError("bad_salt", "the salt file is not exactly 64 lower-case hex digits")
    return bytes.fromhex(data.decode("ascii"))


def open_body(header: Mapping[str, Any], body: bytes, salt: bytes) -> dict[str, Any]:
    """Check a body and its salt against the header's commitment, then parse it strictly."""
    if body_commitment(parse_salt(salt), body) != header["body_commit"]:
        raise FormatError("wrong_commit", "body and salt do not give the header's body_commit")
    value = parse_strict(body)
    BODY_CHECKS[header["kind"]](value, "body")
    for field in ("origin", "time"):
        if value[field] != header[field]:
            raise FormatError(
                "header_body_mismatch",
                f"found {field} {header[field]!r} in the header and {value[field]!r} in the body",
            )
    opened: dict[str, Any] = value
    return opened
