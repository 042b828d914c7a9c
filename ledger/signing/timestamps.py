"""RFC 3161 timestamps: ask an authority for one, and verify its reply offline, for ever.

A reply is verified at the moment it states, so it stays good after its certificates have expired. Roots of
trust are given by the caller; certificates inside the reply only lead up to them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

from ledger.errors import FormatError
from ledger.signing.der import children

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampResponse

_SHA256 = "2.16.840.1.101.3.4.2.1"
_GRANTED = 0
_SIGNERS, _CERTIFICATES, _SIGNED_ATTRIBUTES = 0x31, 0xA0, 0xA0  # identifier bytes in a token

# Object identifiers in DER: a hash, and the signature algorithms that may be named along with it.
_RSA = "2a864886f70d0101"
_ECDSA = "2a8648ce3d0403"
_ALGORITHMS = {
    bytes.fromhex(f"6086480165030402{digest}"): {
        bytes.fromhex(name) for name in (f"{_RSA}01", f"{_RSA}{rsa}", f"{_ECDSA}{ecdsa}")
    }
    for digest, rsa, ecdsa in (("01", "0b", "02"), ("02", "0c", "03"), ("03", "0d", "04"))
}


def request_for(message: bytes) -> bytes:
    """A DER request to send for ``message``: its SHA-256, a nonce, and a wish for the certificate."""
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    if not message:
        _refuse("found nothing to put a time on, expected the text of a checkpoint")
    builder = TimestampRequestBuilder(data=message, hash_algorithm=HashAlgorithm.SHA256, nonce=True, cert_req=True)
    return builder.build().as_bytes()


def read_time(reply: bytes, message: bytes | None = None) -> datetime:
    """The UTC time a reply states, unverified, for display only.

    FormatError ``bad_timestamp`` for bytes that are no reply, and for a reply over another text than ``message``.
    """
    response = _decode(reply)
    if message is not None:
        _check_imprint(response, message)
    return _stated_time(response)


def verify_token(reply: bytes, message: bytes, roots_pem: Sequence[bytes]) -> datetime:
    """Verify that an authority under one of ``roots_pem`` put a time on ``message``, and return that UTC time.

    ``reply`` is the DER reply of the authority; each of ``roots_pem`` holds one or more PEM certificates.
    Raises FormatError ``bad_timestamp`` for a refusal, for another message or hash than SHA-256, for a signer
    that is not allowed to make timestamps, was not valid at that time or is under another root, and for any
    byte changed since, except in certificates the chain does not need and attributes added after signing.
    """
    from rfc3161_client import VerificationError, VerifierBuilder

    roots = _load_roots(roots_pem)
    response = _decode(reply)
    _check_imprint(response, message)
    _check_unsigned_fields(reply)
    try:
        VerifierBuilder(roots=roots).build().verify(response, response.tst_info.message_imprint.message)
    except (VerificationError, ValueError) as error:
        _refuse(
            f"the timestamp does not verify under the given root certificates at the time it states ({_short(error)}); "
            "pass the root certificate of the authority that made it, or ask for a new timestamp"
        )
    return _stated_time(response)


def _decode(reply: bytes) -> TimeStampResponse:
    """Parse a reply that grants a token."""
    from rfc3161_client import decode_timestamp_response

    try:
        response = decode_timestamp_response(reply)
    except ValueError as error:
        _refuse(f"found bytes that are not an RFC 3161 reply ({_short(error)}), expected a .tsr file")
    if response.status != _GRANTED:
        said = _line(", ".join(response.status_string)) or f"status {response.status}"
        _refuse(f"the authority refused the timestamp ({said}); ask again, or ask another authority")
    try:
        response.tst_info.message_imprint  # noqa: B018 (the token is parsed at the first look)
    except ValueError as error:
        _refuse(f"found a reply without a readable token ({_short(error)}), expected one; ask again")
    return response


def _check_imprint(response: TimeStampResponse, message: bytes) -> None:
    imprint = response.tst_info.message_imprint
    if imprint.hash_algorithm.dotted_string != _SHA256 or imprint.message != hashlib.sha256(message).digest():
        _refuse("found a timestamp of another text, expected the SHA-256 of this one; use the reply made for it")


def _stated_time(response: TimeStampResponse) -> datetime:
    return response.tst_info.gen_time.astimezone(UTC)


def _load_roots(roots_pem: Sequence[bytes]) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        roots = [root for pem in roots_pem for root in load_pem_x509_certificates(pem)]
    except ValueError:
        _refuse("found a root certificate that cannot be read, expected certificates in PEM")
    if not roots:
        _refuse("found no root certificate to trust, expected that of the authority in PEM")
    return roots


def _check_unsigned_fields(reply: bytes) -> None:
    """Hold the fields that neither the signature covers nor the library looks at to their only right values."""
    try:
        _, token = children(children(reply)[0].content)
        version, _, _, *rest = children(children(children(token.content)[1].content)[0].content)
        fields = {field.tag: field.content for field in rest}
        (signer,) = children(fields[_SIGNERS])
        signer_version, signer_id, digest, *rest = children(signer.content)
        algorithm = next(field for field in rest if field.tag != _SIGNED_ATTRIBUTES)
        names = [children(field.content)[0].content for field in (digest, algorithm)]
        issuer = children(signer_id.content)[0].content
        # Compared as bytes: the library takes an issuer in another string type for the same issuer.
        named = issuer in fields[_CERTIFICATES]
    except (ValueError, LookupError, StopIteration):
        _refuse("found a timestamp without one signer and its certificate, expected both; ask for a new timestamp")
    if (version.content, signer_version.content, named) != (b"\x03", b"\x01", True):
        _refuse("found a timestamp in another version than signed data 3 with a signer named as in its certificate")
    if names[1] not in _ALGORITHMS.get(names[0], ()):
        _refuse("found a timestamp with another signature algorithm, expected SHA-2 with RSA or ECDSA")


def _short(error: Exception) -> str:
    """The reason at the end of an error, which may carry a whole stack of them, on one short line."""
    reasons = re.findall(r'Verify error: ?([^"]+)"', str(error)) or re.findall(r'reason: "([^"]+)"', str(error))
    return _line((reasons or [str(error)])[-1])


def _line(text: str) -> str:
    """Foreign text as a short part of a sentence."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:160].strip()


def _refuse(message: str) -> NoReturn:
    raise FormatError("bad_timestamp", message)
