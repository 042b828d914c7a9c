"""Proof files: that an entry is in a ledger, and that a ledger only grew.

A proof is one RFC 8785 object that holds all a reader needs. Whatever in it follows from the rest (index,
leaf, sizes, origin) is derived again on reading and has to be the same, so there is one spelling only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledger import shapes
from ledger.canonical import canonical, parse_strict
from ledger.checkpoint import Checkpoint, parse_checkpoint
from ledger.entry import parse_header
from ledger.errors import FormatError
from ledger.merkle import leaf_hash, verify_consistency, verify_inclusion

if TYPE_CHECKING:
    from ledger.signing.notes import Note

INCLUSION = "urn:ridgefill:ledger:inclusion:v1"
CONSISTENCY = "urn:ridgefill:ledger:consistency:v1"

hashes = shapes.array(shapes.sha256)
_inclusion = shapes.record(
    {
        "type": shapes.one_of(INCLUSION),
        "origin": shapes.origin,
        "size": shapes.natural,
        "index": shapes.natural,
        "leaf": shapes.sha256,
        "hashes": hashes,
        "checkpoint": shapes.text,
        "header": shapes.text,
    }
)
_consistency = shapes.record(
    {
        "type": shapes.one_of(CONSISTENCY),
        "origin": shapes.origin,
        "old_size": shapes.natural,
        "size": shapes.natural,
        "hashes": hashes,
        "old_checkpoint": shapes.text,
        "checkpoint": shapes.text,
    }
)


def read_point(text: str) -> tuple[Checkpoint, Note | None]:
    """The checkpoint in ``text`` and, when it carries signatures, the signed note; FormatError otherwise."""
    if "\n\n" not in text:
        return parse_checkpoint(text), None
    from ledger.signing.notes import parse_note

    note = parse_note(text.encode("utf-8"))
    return parse_checkpoint(note.text), note


@dataclass(frozen=True)
class Inclusion:
    """``header`` (stored bytes) is an entry of the ledger that ``checkpoint`` (note or bare text) describes.

    ``hashes`` are the 32-byte hashes of the RFC 6962 audit path, lowest first.
    """

    header: bytes
    hashes: tuple[bytes, ...]
    checkpoint: str

    @property
    def leaf(self) -> str:
        """Hex leaf hash of the header."""
        return leaf_hash(self.header).hex()

    def to_json(self) -> dict[str, Any]:
        """The proof as the JSON object of its file."""
        header = parse_header(self.header)
        return {
            "type": INCLUSION,
            "origin": header["origin"],
            "size": read_point(self.checkpoint)[0].size,
            "index": header["seq"],
            "leaf": self.leaf,
            "hashes": [node.hex() for node in self.hashes],
            "checkpoint": self.checkpoint,
            "header": self.header.decode("utf-8"),
        }

    def encode(self) -> bytes:
        """The bytes of the proof file."""
        return canonical(self.to_json())

    def check(self) -> Checkpoint:
        """The checkpoint, once the header is proved to be under its root; FormatError ``bad_proof`` if not."""
        header, (point, _) = parse_header(self.header), read_point(self.checkpoint)
        _same_origin(str(header["origin"]), point)
        verify_inclusion(header["seq"], point.size, leaf_hash(self.header), self.hashes, point.root)
        return point


@dataclass(frozen=True)
class Consistency:
    """The ledger of ``checkpoint`` begins with the entries of ``old_checkpoint`` (notes or bare texts).

    ``hashes`` are the 32-byte hashes of the RFC 6962 consistency proof.
    """

    old_checkpoint: str
    hashes: tuple[bytes, ...]
    checkpoint: str

    def to_json(self) -> dict[str, Any]:
        """The proof as the JSON object of its file."""
        old, new = read_point(self.old_checkpoint)[0], read_point(self.checkpoint)[0]
        return {
            "type": CONSISTENCY,
            "origin": new.origin,
            "old_size": old.size,
            "size": new.size,
            "hashes": [node.hex() for node in self.hashes],
            "old_checkpoint": self.old_checkpoint,
            "checkpoint": self.checkpoint,
        }

    def encode(self) -> bytes:
        """The bytes of the proof file."""
        return canonical(self.to_json())

    def check(self) -> tuple[Checkpoint, Checkpoint]:
        """The older and newer checkpoint, once proved to be of one history; FormatError ``bad_proof`` if not."""
        old, new = read_point(self.old_checkpoint)[0], read_point(self.checkpoint)[0]
        _same_origin(old.origin, new)
        verify_consistency(old.size, new.size, old.root, new.root, self.hashes)
        return old, new


def parse_proof(data: bytes) -> Inclusion | Consistency:
    """Read a proof file; FormatError when anything in it is not what the rest of it gives. Nothing is proved yet."""
    value = parse_strict(data)
    proof = _consistency_from(value) if _type(value) == CONSISTENCY else _inclusion_from(value)
    if proof.encode() != data:
        raise FormatError("bad_proof", "found a proof whose numbers or leaf are not those of its header and checkpoint")
    return proof


def from_hex(values: list[str]) -> tuple[bytes, ...]:
    """Hex hashes as bytes."""
    return tuple(bytes.fromhex(value) for value in values)


def _type(value: Any) -> Any:
    return value.get("type") if isinstance(value, Mapping) else None


def _inclusion_from(value: Any) -> Inclusion:
    _inclusion(value, "proof")
    return Inclusion(value["header"].encode("utf-8"), from_hex(value["hashes"]), value["checkpoint"])


def _consistency_from(value: Any) -> Consistency:
    _consistency(value, "proof")
    return Consistency(value["old_checkpoint"], from_hex(value["hashes"]), value["checkpoint"])


def _same_origin(origin: str, point: Checkpoint) -> None:
    if origin != point.origin:
        raise FormatError("bad_proof", f"found a proof about {origin} under a checkpoint of {point.origin}")
