"""What a check of something received has to say: what holds, by whose word, and what was not shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ledger.errors import BrokenLedger
from ledger.publishing.proofs import read_point
from ledger.views import printable

if TYPE_CHECKING:
    from ledger.signing.notes import VerifierKey


@dataclass(frozen=True)
class Checked:
    """The outcome for one thing of a ``kind``; all three lists are sentences for the reader.

    ``signed_by`` names the given keys whose signatures over the thing itself verified.
    """

    kind: str
    established: tuple[str, ...]
    signed_by: tuple[str, ...]
    not_established: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The outcome as JSON-ready values."""
        return {"ok": True, **asdict(self)}

    def text(self) -> str:
        """The outcome for a person."""
        lines = [f"{self.kind}: checked"]
        lines += [f"  holds      {line}" for line in self.established]
        lines += [f"  signed by  {line}" for line in self.signed_by]
        lines += [f"  not shown  {line}" for line in self.not_established]
        return "\n".join(printable(line) for line in lines)  # names in it are the sender's


@dataclass(frozen=True)
class Signatures:
    """Who signed, in words: ``known`` by keys the reader gave, ``unknown`` sentences about all the others."""

    known: tuple[str, ...]
    unknown: tuple[str, ...]


def note_signatures(text: str, known: Sequence[VerifierKey]) -> Signatures:
    """The signatures under a checkpoint; FormatError ``bad_signature`` when one by a known key does not verify."""
    _, note = read_point(text)
    if note is None:
        return Signatures((), ("the checkpoint is not signed: nothing says whose ledger this is",))
    from ledger.signing.notes import check_signatures

    signed = check_signatures(note, known)
    names = {(item.key.name, item.key.key_id) for item in signed}
    others = [item for item in note.signatures if (item.name, item.key_id) not in names]
    return Signatures(
        tuple(_signer(item.key.name, item.key.key_id, item.time) for item in signed),
        tuple(unknown_key(f"{item.name}+{item.key_id.hex()}") for item in others),
    )


def unknown_key(name: str) -> str:
    """The sentence about a signature nobody vouched for."""
    return f"signature by unknown key {name}: ignored; give its verifier key with --key to check it"


def require_signer(kind: str, signed_by: Sequence[str], known: Sequence[VerifierKey]) -> None:
    """BrokenLedger when the reader gave keys and none of them signed."""
    if known and not signed_by:
        names = ", ".join(f"{key.name}+{key.key_id.hex()}" for key in known)
        raise BrokenLedger(
            f"found a {kind} that none of the given keys signed ({names}); ask its sender for the signed one"
        )


def _signer(name: str, key_id: bytes, time: int | None) -> str:
    if time is None:
        return f"{name}+{key_id.hex()}"
    try:
        moment = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        moment = f"POSIX time {time}"
    return f"{name}+{key_id.hex()} (cosigned at {moment} by its own clock)"
