"""Check something received, offline, with nothing but the file and the keys the reader trusts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ledger.checkpoint import Checkpoint
from ledger.entry import open_body, parse_header
from ledger.errors import BrokenLedger, FormatError, UsageError
from ledger.files import read_plain
from ledger.merkle import leaf_hash
from ledger.publishing.proofs import Consistency, Inclusion, parse_proof, read_point
from ledger.publishing.report import Checked, note_signatures, require_signer, unknown_key
from ledger.publishing.statements import check_envelope, key_id, open_envelope, parse_statement

if TYPE_CHECKING:
    from ledger.signing.notes import VerifierKey

_TIME = "that the times in it are true: they are its writer's own clock"


@dataclass(frozen=True)
class Held:
    """What the reader has already: verifier keys in text, and bytes of an entry's header, a salt, a checkpoint."""

    keys: tuple[str, ...] = ()
    entry: bytes | None = None
    header: bytes | None = None
    salt: bytes | None = None
    checkpoint: bytes | None = None


def check_received(path: Path, held: Held) -> Checked:
    """Check a proof, an export, a checkpoint, a revealed body or a published folder.

    UsageError for options that do not fit what ``path`` is, BrokenLedger or FormatError when it does not
    hold, OutputMismatch when only a file of a published folder differs.
    """
    known = _keys(held.keys)
    if path.is_dir():
        from ledger.publishing.folder import check_folder

        _refuse(held, "a published folder")
        return check_folder(path, held.keys, known)
    try:
        data = read_plain(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file or folder {path}; give what you received") from None
    if held.header is not None or held.salt is not None:
        return _check_revealed(data, held)
    if not data.startswith(b"{"):
        _refuse(held, "a checkpoint", "checkpoint")
        return _check_checkpoint(_text(data), known, held)
    if b'"payloadType"' in data:
        _refuse(held, "an exported registration", "entry")
        return _check_export(data, known, held)
    return _check_proof(data, known, held)


def _check_proof(data: bytes, known: Sequence[VerifierKey], held: Held) -> Checked:
    proof = parse_proof(data)
    if isinstance(proof, Consistency):
        _refuse(held, "a consistency proof", "checkpoint")
        return _check_consistency(proof, known, held)
    _refuse(held, "an inclusion proof", "entry", "checkpoint")
    return _check_inclusion(proof, known, held)


def _check_inclusion(proof: Inclusion, known: Sequence[VerifierKey], held: Held) -> Checked:
    point = proof.check()
    header, signatures = parse_header(proof.header), note_signatures(proof.checkpoint, known)
    require_signer("checkpoint", signatures.known, known)
    same = _same_entry(proof, held)
    return Checked(
        kind="inclusion proof",
        established=(
            f"entry #{header['seq']} ({header['kind']}, leaf {proof.leaf}) is in {_point(point)}",
            *(("the entry you gave is that entry, byte for byte",) if same else ()),
            *_same_point((point,), held),
        ),
        signed_by=signatures.known,
        not_established=(*signatures.unknown, "what its body says: only its hash is here", _TIME),
    )


def _check_consistency(proof: Consistency, known: Sequence[VerifierKey], held: Held) -> Checked:
    old, new = proof.check()
    signatures = note_signatures(proof.checkpoint, known)
    before = note_signatures(proof.old_checkpoint, known)
    require_signer("checkpoint", signatures.known, known)
    same = _same_point((old, new), held)
    return Checked(
        kind="consistency proof",
        established=(
            f"{_point(new)} begins with the {old.size} entries of root {old.root.hex()}: nothing was rewritten between",
            *(f"the older checkpoint is signed by {name}" for name in before.known),
            *same,
        ),
        signed_by=signatures.known,
        not_established=(
            *signatures.unknown,
            *(() if same else ("that this is the older checkpoint you hold: give yours with --checkpoint",)),
        ),
    )


def _check_export(data: bytes, known: Sequence[VerifierKey], held: Held) -> Checked:
    envelope = open_envelope(data)
    statement = parse_statement(envelope.payload)
    point, body = statement.inclusion.check(), statement.open()
    signed_by = tuple(map(key_id, check_envelope(envelope, known)))
    require_signer("statement", signed_by, known)
    below = note_signatures(statement.inclusion.checkpoint, known)
    header, same = parse_header(statement.inclusion.header), _same_entry(statement.inclusion, held)
    pinned = [body["claim_file"], *body["configs"]]
    return Checked(
        kind="exported registration",
        established=(
            f"{header['kind']} #{header['seq']} of {header['origin']}, graded {header['grade']}, is about "
            f"{body['experiment']}: its body is the one the entry committed to",
            f"the entry (leaf {statement.inclusion.leaf}) is in {_point(point)}",
            *(f"it pins {item['sha256']}  {item['path']}" for item in pinned),
            *(("the entry you gave is that entry, byte for byte",) if same else ()),
            *(f"its checkpoint is signed by {name}" for name in below.known),
        ),
        signed_by=signed_by,
        not_established=(
            *(unknown_key(name) for name in envelope.signatures if name not in signed_by),
            *(f"of its checkpoint: {line}" for line in below.unknown),
            "its grade: that follows from earlier entries, which are not here",
            _TIME,
        ),
    )


def _check_checkpoint(text: str, known: Sequence[VerifierKey], held: Held) -> Checked:
    point, _ = read_point(text)
    signatures = note_signatures(text, known)
    require_signer("checkpoint", signatures.known, known)
    return Checked(
        kind="checkpoint",
        established=(f"it reads as {_point(point)}", *_same_point((point,), held)),
        signed_by=signatures.known,
        not_established=(*signatures.unknown, "anything about the entries below that root: they are not here"),
    )


def _check_revealed(body: bytes, held: Held) -> Checked:
    if held.header is None or held.salt is None:
        raise UsageError("a revealed body needs both --header FILE and --salt FILE; give the missing one")
    if held.keys or held.checkpoint is not None or held.entry is not None:
        raise UsageError("a revealed body carries no proof; check one of its entry in a command of its own")
    header = parse_header(held.header)
    opened = open_body(header, body, held.salt)
    leaf = leaf_hash(held.header).hex()
    about = f", of {opened['experiment']}" if "experiment" in opened else ""
    return Checked(
        kind="revealed body",
        established=(f"body and salt are those of {header['kind']} #{header['seq']} of {header['origin']}{about}",),
        signed_by=(),
        not_established=(f"that a ledger holds this entry: compare its leaf {leaf} with one you trust", _TIME),
    )


def _same_entry(proof: Inclusion, held: Held) -> bool:
    if held.entry is None:
        return False
    if held.entry != proof.header:
        raise BrokenLedger(
            f"the entry you gave has the leaf {leaf_hash(held.entry).hex()}, this is about {proof.leaf}; "
            "give the header file of that entry"
        )
    return True


def _same_point(points: Sequence[Checkpoint], held: Held) -> tuple[str, ...]:
    """The sentence that the checkpoint the reader holds is one of ``points``; BrokenLedger when it is not."""
    if held.checkpoint is None:
        return ()
    mine, _ = read_point(_text(held.checkpoint))
    if mine not in points:
        sizes = " or ".join(str(point.size) for point in points)
        raise BrokenLedger(
            f"the checkpoint you gave is {_point(mine)}, which is not the one of {sizes} entries here; "
            f"ask for a proof since {mine.size}"
        )
    return (f"the checkpoint you gave is the one of {mine.size} entries",)


def _point(point: Checkpoint) -> str:
    return f"{point.origin} at {point.size} entries (root {point.root.hex()})"


def _keys(texts: Sequence[str]) -> tuple[VerifierKey, ...]:
    if not texts:
        return ()
    from ledger.signing.notes import parse_verifier_key

    try:
        return tuple(dict.fromkeys(map(parse_verifier_key, texts)))
    except FormatError as failure:
        raise UsageError(f"--key: {failure}") from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as failure:
        raise FormatError("not_utf8", f"found bytes that are not UTF-8 at offset {failure.start}") from None


def _refuse(held: Held, what: str, *allowed: str) -> None:
    for name in ("entry", "header", "salt", "checkpoint"):
        if getattr(held, name) is not None and name not in allowed:
            raise UsageError(f"--{name} says nothing about {what}; leave it out")
