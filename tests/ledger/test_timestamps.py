"""RFC 3161 timestamps, offline: one that was kept, and fresh ones where there is an openssl command.

The kept one is the answer of ``openssl ts`` to a request of ours. Its certificates were valid for ten minutes.
"""

from __future__ import annotations

import hashlib
import importlib.util
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType

import pytest
from cryptography.x509 import load_pem_x509_certificate
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatError
from ledger.signing.timestamps import read_time, request_for, verify_token

GOLDEN = Path(__file__).parent / "golden" / "timestamps"
REPLY, MESSAGE, ROOT = ((GOLDEN / name).read_bytes() for name in ("checkpoint.tsr", "checkpoint.txt", "root.pem"))
TIME = datetime(2026, 11, 29, 21, 14, 44, tzinfo=UTC)
# What `openssl ts` answers to a request with a hash it does not take.
REFUSAL = bytes.fromhex(
    "3037303502010230" + "2c0c2a" + b"Message digest algorithm is not supported.".hex() + "03020780"
)


def _authority() -> ModuleType:
    path = Path(__file__).parent / "authority.py"
    spec = importlib.util.spec_from_file_location("authority", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


authority = _authority()
OPENSSL = pytest.mark.skipif(not authority.HAS_OPENSSL, reason=authority.NO_OPENSSL)


def refusal(action, *arguments) -> str:
    """The sentence with which a call is refused."""
    with pytest.raises(FormatError) as caught:
        action(*arguments)
    assert caught.value.code == "bad_timestamp"
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_kept_timestamp_verifies_for_ever() -> None:
    """At its own time: its certificates have been worthless since five minutes after."""
    assert verify_token(REPLY, MESSAGE, [ROOT]) == TIME
    assert load_pem_x509_certificate(ROOT).not_valid_after_utc - TIME < timedelta(minutes=6)


def test_its_time_can_be_read_without_a_root() -> None:
    """For display, in UTC."""
    assert read_time(REPLY) == TIME
    assert read_time(REPLY).utcoffset() == timedelta(0)


def test_another_message_is_refused() -> None:
    """A single byte more is another text."""
    assert "another text" in refusal(verify_token, REPLY, MESSAGE + b"\n", [ROOT])


@pytest.mark.parametrize("place", range(len(REPLY)))
def test_any_changed_byte_is_refused(place: int) -> None:
    """Every byte of the reply in turn, fields the signature does not cover included."""
    for change in (0x01, 0x80, 0xFF, 1 << place % 8):
        data = bytearray(REPLY)
        data[place] ^= change
        refusal(verify_token, bytes(data), MESSAGE, [ROOT])


@given(st.integers(0, len(REPLY) - 1), st.integers(0, 5), st.binary(max_size=5))
def test_other_bytes_in_a_reply_are_refused_with_a_sentence(place: int, removed: int, added: bytes) -> None:
    """Whatever is cut out and put in, it is refused, not a crash; only the reply itself verifies."""
    data = REPLY[:place] + added + REPLY[place + removed :]
    if data == REPLY:
        assert verify_token(data, MESSAGE, [ROOT]) == TIME
    else:
        refusal(verify_token, data, MESSAGE, [ROOT])


@pytest.mark.parametrize("data", [b"", b"\x30\x00", b"no reply\n" * 100, REPLY[:-1], REPLY + b"\0", REPLY[9:]])
def test_bytes_that_are_no_reply_are_refused(data: bytes) -> None:
    """Verifying and reading alike; the last is a token without the reply around it."""
    assert "not an RFC 3161 reply" in refusal(verify_token, data, MESSAGE, [ROOT])
    assert "not an RFC 3161 reply" in refusal(read_time, data)


def test_the_reason_of_an_authority_that_refused_is_passed_on() -> None:
    """In the words it sent."""
    assert "refused the timestamp (Message digest algorithm is not supported.)" in refusal(read_time, REFUSAL)
    refusal(verify_token, REFUSAL, MESSAGE, [ROOT])


def test_a_reply_that_grants_nothing_is_refused() -> None:
    """Status granted, and no token."""
    assert "without a readable token" in refusal(read_time, bytes.fromhex("30053003020100"))


@pytest.mark.parametrize("roots", [[], [b""], [b"no certificate"], [ROOT, ROOT[:-60]]])
def test_roots_that_are_no_certificates_are_refused(roots: list[bytes]) -> None:
    """Trust has to be named."""
    assert "root certificate" in refusal(verify_token, REPLY, MESSAGE, roots)


def test_a_root_may_be_given_among_others_and_twice(tmp_path: Path) -> None:
    """Several in one file or in several."""
    other = authority.Authority(tmp_path).root_pem
    assert verify_token(REPLY, MESSAGE, [other + ROOT, ROOT]) == TIME
    assert "under the given root" in refusal(verify_token, REPLY, MESSAGE, [other])


def test_nothing_can_be_put_a_time_on() -> None:
    """An empty text is a mistake."""
    refusal(request_for, b"")


@OPENSSL
def test_a_request_names_the_hash_a_nonce_and_the_certificate(tmp_path: Path) -> None:
    """As another implementation reads it."""
    said = authority.Authority(tmp_path).describe(request_for(MESSAGE))
    assert "Hash Algorithm: sha256" in said
    assert "d4 30 88 01 d1 7b 8e 58" in said
    assert "Certificate required: yes" in said
    assert "Nonce: 0x" in said
    assert request_for(MESSAGE) != request_for(MESSAGE)


@OPENSSL
def test_the_answer_of_another_implementation_verifies(tmp_path: Path) -> None:
    """``openssl ts`` answers our request, dated now."""
    now = datetime.now(UTC).replace(microsecond=0)
    one = authority.Authority(tmp_path, start=now - timedelta(days=1), end=now + timedelta(days=1))
    reply = one.answer(request_for(b"text\n"))
    assert now <= verify_token(reply, b"text\n", [one.root_pem]) == read_time(reply)
    refusal(verify_token, reply, b"other\n", [one.root_pem])
    refusal(verify_token, reply, b"text\n", [ROOT])


@OPENSSL
@pytest.mark.parametrize("intermediate", [False, True])
def test_a_signer_under_the_root_is_trusted_directly_or_through_another(tmp_path: Path, intermediate: bool) -> None:
    """Certificates in the reply lead up to the root."""
    one = authority.Authority(tmp_path, intermediate=intermediate)
    assert verify_token(one.reply(b"text\n"), b"text\n", [one.root_pem]) == datetime(2020, 1, 2, tzinfo=UTC)


@OPENSSL
@pytest.mark.parametrize(("days", "reason"), [(-1, "certificate is not yet valid"), (3, "certificate has expired")])
def test_a_time_at_which_the_signer_was_not_valid_is_refused(tmp_path: Path, days: int, reason: str) -> None:
    """Before its certificate began and after it ended."""
    one = authority.Authority(tmp_path)
    reply = one.reply(b"text\n", one.start + timedelta(days=days))
    assert f"({reason}" in refusal(verify_token, reply, b"text\n", [one.root_pem])


@OPENSSL
@pytest.mark.parametrize(
    "rights",
    [{"usage": None}, {"usage": authority.SERVER}, {"critical": False}],
    ids=["none", "servers", "not critical"],
)
def test_a_signer_that_may_not_make_timestamps_is_refused(tmp_path: Path, rights: dict[str, object]) -> None:
    """A certificate under the same root for another purpose dates nothing."""
    one = authority.Authority(tmp_path, **rights)
    assert "(unsuitable certificate purpose)" in refusal(verify_token, one.reply(b"text\n"), b"text\n", [one.root_pem])


@OPENSSL
@pytest.mark.parametrize(("digest", "hashed"), [("sha512", b""), ("sha3_256", hashlib.sha256(b"text\n").digest())])
def test_another_hash_than_sha256_is_refused(tmp_path: Path, digest: str, hashed: bytes) -> None:
    """Even of the right text, and even if only its name is another."""
    one = authority.Authority(tmp_path)
    reply = one.reply(b"text\n", digest=digest, hashed=hashed)
    assert "expected the SHA-256" in refusal(verify_token, reply, b"text\n", [one.root_pem])
