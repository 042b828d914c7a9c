"""One registration as an in-toto Statement v1 in a signed DSSE envelope.

The statement's subjects are the claim file and the configs that the registration pins. Its predicate holds
the entry, its body and salt, and the proof that the entry is in the ledger, so that a receiver can check
all of it with nothing else at hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ledger import shapes
from ledger.canonical import canonical, parse_strict
from ledger.entry import GRADED, open_body, parse_header
from ledger.errors import FormatError
from ledger.publishing.proofs import Inclusion, from_hex, hashes

if TYPE_CHECKING:
    from securesystemslib.dsse import Envelope

    from ledger.signing.keys import SigningKey
    from ledger.signing.notes import VerifierKey

PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:ridgefill:ledger:registration:v1"

_statement = shapes.record(
    {
        "_type": shapes.one_of(STATEMENT),
        "subject": shapes.anything,  # derived from the body, compared as a whole
        "predicateType": shapes.one_of(PREDICATE),
        "predicate": shapes.record(
            {
                "header": shapes.anything,  # its canonical bytes are the entry, checked by parse_header
                "body": shapes.anything,  # likewise, checked by open_body
                "salt": shapes.sha256,
                "leaf": shapes.sha256,
                "inclusion": shapes.record(
                    {
                        "origin": shapes.origin,
                        "size": shapes.natural,
                        "index": shapes.natural,
                        "hashes": hashes,
                        "checkpoint": shapes.text,
                    }
                ),
            }
        ),
    }
)
_envelope = shapes.record(
    {
        "payload": shapes.text,
        "payloadType": shapes.one_of(PAYLOAD),
        "signatures": shapes.array(shapes.record({"keyid": shapes.text, "sig": shapes.text})),
    }
)


@dataclass(frozen=True)
class Statement:
    """A registration with its proof: ``body`` in stored bytes, ``salt`` in 64 hex digits."""

    inclusion: Inclusion
    body: bytes
    salt: str

    def encode(self) -> bytes:
        """The payload of the envelope, in RFC 8785 bytes."""
        body, proof = parse_strict(self.body), self.inclusion.to_json()
        pinned = [body["claim_file"], *body["configs"]]
        return canonical(
            {
                "_type": STATEMENT,
                "subject": [{"name": item["path"], "digest": {"sha256": item["sha256"]}} for item in pinned],
                "predicateType": PREDICATE,
                "predicate": {
                    "header": parse_strict(self.inclusion.header),
                    "body": body,
                    "salt": self.salt,
                    "leaf": proof["leaf"],
                    "inclusion": {key: proof[key] for key in ("origin", "size", "index", "hashes", "checkpoint")},
                },
            }
        )

    def open(self) -> Mapping[str, Any]:
        """The body, checked against the header's commitment; FormatError when it is not a registration's."""
        header = parse_header(self.inclusion.header)
        if header["kind"] not in GRADED:
            raise FormatError("bad_statement", f"found a {header['kind']} entry, expected {' or '.join(GRADED)}")
        return open_body(header, self.body, self.salt.encode("ascii"))


def parse_statement(payload: bytes) -> Statement:
    """Read a payload; FormatError when the body is not the committed one or anything else does not follow from it.

    The proof inside is not checked here: call ``statement.inclusion.check()``.
    """
    value = parse_strict(payload)
    _statement(value, "statement")
    predicate = value["predicate"]
    inclusion = predicate["inclusion"]
    proof = Inclusion(canonical(predicate["header"]), from_hex(inclusion["hashes"]), inclusion["checkpoint"])
    statement = Statement(proof, canonical(predicate["body"]), predicate["salt"])
    statement.open()
    if statement.encode() != payload:
        raise FormatError("bad_statement", "found subjects, numbers or a leaf that are not those of the entry inside")
    return statement


def seal(payload: bytes, key: SigningKey) -> bytes:
    """A DSSE envelope over ``payload``, signed by ``key``; its key id is ``NAME+8HEX`` as in a signed note."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner  # type: ignore[attr-defined]  # public, yet not in an __all__

    envelope = Envelope(payload, PAYLOAD, {})
    envelope.sign(CryptoSigner(key.private, _public(key.verifier())))
    return canonical(envelope.to_dict())


def open_envelope(data: bytes) -> Envelope:
    """Read an envelope; FormatError unless it would be written again with the same bytes. No signature is checked."""
    from securesystemslib.dsse import Envelope

    value = parse_strict(data)
    _envelope(value, "envelope")
    try:
        envelope = Envelope.from_dict(value)
    except ValueError as failure:
        raise FormatError("bad_envelope", f"found an envelope that cannot be read ({failure})") from None
    if canonical(envelope.to_dict()) != data:
        raise FormatError("bad_envelope", "found an envelope in another spelling than RFC 8785 and standard base64")
    return envelope


def check_envelope(envelope: Envelope, known: Sequence[VerifierKey]) -> tuple[VerifierKey, ...]:
    """Which of the known keys signed the envelope.

    Signatures by other keys are ignored; one that bears a known key id and does not verify is a FormatError
    ``bad_signature``.
    """
    from securesystemslib.exceptions import UnverifiedSignatureError

    from ledger.signing.notes import ED25519

    signed = []
    for key in known:
        signature = envelope.signatures.get(key_id(key))
        if signature is None or key.algorithm != ED25519:
            continue
        try:
            _public(key).verify_signature(signature, envelope.pae())
        except UnverifiedSignatureError:
            raise FormatError("bad_signature", f"the signature by {key_id(key)} is not over this statement") from None
        signed.append(key)
    return tuple(signed)


def key_id(key: VerifierKey) -> str:
    """How an envelope names a key: ``NAME+8HEX``."""
    return f"{key.name}+{key.key_id.hex()}"


def _public(key: VerifierKey) -> Any:
    from securesystemslib.signer import SSlibKey  # type: ignore[attr-defined]  # public, yet not in an __all__

    return SSlibKey(key_id(key), "ed25519", "ed25519", {"public": key.public.hex()})
