"""C2SP signed notes: a text, a blank line, and one line for each signature.

Two kinds of signature are known: Ed25519 over the text (signed-note, algorithm byte 1) and the dated
Ed25519 cosignature of a co-author (tlog-cosignature version 1, algorithm byte 4). A note is read only when
it would be written again as the same bytes. Signatures of unknown keys are kept and ignored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.errors import FormatError

ED25519, COSIGNATURE = 1, 4
KEY_SIZE, ID_SIZE, SIGNATURE_SIZE, TIME_SIZE = 32, 4, 64, 8
MAX_TIME = 2**63 - 1
# The format asks readers for a limit of at least 16; a limit keeps a hostile file from costing hours.
MAX_SIGNATURES = 100
_DASH = "\N{EM DASH} "
# Lone surrogates cannot be written as UTF-8.
_UNFIT = re.compile(r"[\x00-\x09\x0b-\x1f\ud800-\udfff]")


def check_key_name(name: str) -> None:
    """Raise FormatError ``bad_key`` unless ``name`` is printable, without spaces and plus signs."""
    if not name or not name.isprintable() or " " in name or "+" in name:
        raise FormatError("bad_key", f"found the key name {name!r}, expected printable text without spaces and +")


@dataclass(frozen=True)
class VerifierKey:
    """A public key: its name, ``ED25519`` or ``COSIGNATURE``, and 32 bytes. FormatError ``bad_key``."""

    name: str
    algorithm: int
    public: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if self.algorithm not in (ED25519, COSIGNATURE):
            raise FormatError(
                "bad_key", f"found the key algorithm {self.algorithm}, expected {ED25519} or {COSIGNATURE}"
            )
        if len(self.public) != KEY_SIZE:
            raise FormatError("bad_key", f"found a public key of {len(self.public)} bytes, expected {KEY_SIZE}")

    @property
    def key_id(self) -> bytes:
        """Four bytes that tell keys of one name apart."""
        return hashlib.sha256(self.name.encode() + b"\n" + self._typed()).digest()[:ID_SIZE]

    def text(self) -> str:
        """One line, ``name+id+key``: the id in hex, the algorithm byte and key in base64."""
        return f"{self.name}+{self.key_id.hex()}+{_base64(self._typed())}"

    def _typed(self) -> bytes:
        return bytes([self.algorithm]) + self.public


def parse_verifier_key(text: str) -> VerifierKey:
    """Parse what ``VerifierKey.text`` writes and nothing else (FormatError ``bad_key``)."""
    name, _, rest = text.partition("+")
    typed = _from_base64(rest.partition("+")[2])
    key = VerifierKey(name, typed[0], typed[1:]) if typed else None
    if key is None or key.text() != text:
        raise FormatError("bad_key", f"found {text!r}, expected a verifier key NAME+ID+KEY whose id fits the key")
    return key


@dataclass(frozen=True)
class Signature:
    """One signature line: the key's name, its 4-byte id, and what that kind of key signs with."""

    name: str
    key_id: bytes
    payload: bytes

    def __post_init__(self) -> None:
        check_key_name(self.name)
        if len(self.key_id) != ID_SIZE or not self.payload:
            raise FormatError("bad_note", f"found a signature of {self.name} without a 4-byte key id and a payload")


@dataclass(frozen=True)
class Note:
    """A text that ends in a newline, with 1 to 100 signatures. FormatError ``bad_note`` for anything else."""

    text: str
    signatures: tuple[Signature, ...]

    def __post_init__(self) -> None:
        if not self.text.endswith("\n") or _UNFIT.search(self.text):
            raise FormatError("bad_note", "found a note text with control characters or without a final newline")
        if not 1 <= len(self.signatures) <= MAX_SIGNATURES:
            raise FormatError(
                "bad_note",
                f"found {len(self.signatures)} signatures, expected 1 to {MAX_SIGNATURES} after a blank line",
            )

    def encode(self) -> bytes:
        """The note as UTF-8."""
        lines = [f"{_DASH}{one.name} {_base64(one.key_id + one.payload)}\n" for one in self.signatures]
        return f"{self.text}\n{''.join(lines)}".encode()


def parse_note(data: bytes) -> Note:
    """Read a note, refusing anything that would not be written the same way again (FormatError ``bad_note``)."""
    try:
        whole = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("bad_note", f"found bytes that are not UTF-8 at offset {error.start} of a note") from None
    # The text may hold blank lines of its own, so the last one separates.
    text, separator, block = whole.rpartition("\n\n")
    lines = block.split("\n")
    if not separator or lines.pop():
        raise FormatError("bad_note", "found no blank line or no final newline, expected a text and then signatures")
    if len(lines) > MAX_SIGNATURES:
        raise FormatError("bad_note", f"found {len(lines)} signatures, expected at most {MAX_SIGNATURES}")
    note = Note(f"{text}\n", tuple(map(_parse_signature, lines)))
    if note.encode() != data:
        raise FormatError("bad_note", "found a note in another spelling than it would be written in")
    return note


def _parse_signature(line: str) -> Signature:
    name, _, encoded = line.removeprefix(_DASH).partition(" ")
    blob = _from_base64(encoded)
    if not line.startswith(_DASH) or len(blob) <= ID_SIZE:
        raise FormatError("bad_note", f"found the line {line[:80]!r}, expected a signature: a dash, a name and base64")
    try:
        return Signature(name, blob[:ID_SIZE], blob[ID_SIZE:])
    except FormatError as error:
        raise FormatError("bad_note", f"{error} in a signature line") from None


@dataclass(frozen=True)
class Signed:
    """A known key that signed, and when: POSIX seconds for a cosignature, None for a plain signature."""

    key: VerifierKey
    time: int | None


def cosigned_message(text: str, time: int) -> bytes:
    """What a cosignature of ``text`` at ``time`` (POSIX seconds) covers."""
    return f"cosignature/v1\ntime {time}\n{text}".encode()


def check_signatures(note: Note, known: Sequence[VerifierKey]) -> tuple[Signed, ...]:
    """Verify the signatures of ``known`` keys and return those keys in the order of their lines.

    A line whose name and id are of no known key is ignored, so the answer may be empty. Raises FormatError
    ``bad_signature`` when a known key's signature does not verify, ``bad_key`` when two different keys share
    name and id.
    """
    keys: dict[tuple[str, bytes], VerifierKey] = {}
    for key in known:
        if keys.setdefault((key.name, key.key_id), key) != key:
            raise FormatError("bad_key", f"found two keys {key.name}+{key.key_id.hex()}, expected one; replace one")
    found = ((keys.get((line.name, line.key_id)), line) for line in note.signatures)
    # A repeated line says nothing new.
    return tuple(dict.fromkeys(_verify(key, note.text, line.payload) for key, line in found if key))


def _verify(key: VerifierKey, text: str, payload: bytes) -> Signed:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    dated = TIME_SIZE if key.algorithm == COSIGNATURE else 0
    time = int.from_bytes(payload[:dated]) if dated else None
    message = text.encode() if time is None else cosigned_message(text, time)
    try:
        if len(payload) != dated + SIGNATURE_SIZE or (time or 0) > MAX_TIME:
            raise InvalidSignature
        Ed25519PublicKey.from_public_bytes(key.public).verify(payload[dated:], message)
    except (InvalidSignature, ValueError):
        raise FormatError(
            "bad_signature",
            f"the signature of {key.name}+{key.key_id.hex()} does not fit the text; "
            "restore the signed file, or sign it again",
        ) from None
    return Signed(key, time)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(text: str) -> bytes:
    """Decoded bytes, or none at all for text that is not base64 (callers compare spellings)."""
    try:
        return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        return b""
