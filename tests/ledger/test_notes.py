"""Signed notes: published notes, exact spelling, and what is refused."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatError
from ledger.signing.keys import SigningKey
from ledger.signing.notes import (
    COSIGNATURE,
    ED25519,
    MAX_SIGNATURES,
    Note,
    Signature,
    Signed,
    VerifierKey,
    check_signatures,
    parse_note,
    parse_verifier_key,
)

# The example of Go's golang.org/x/mod/sumdb/note.
PETER = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
LINE = "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
SEED = base64.b64decode("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz")[1:]
PUBLISHED = f"{TEXT}\n{LINE}".encode()

# A checkpoint of a public staging log with the cosignature of a public witness, and their published keys.
LOG = "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f"
WITNESS = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2"
COSIGNED = """\
arche2025h1.staging.ct.transparency.dev
1432088532
U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=

— arche2025h1.staging.ct.transparency.dev zTM8sQAAAZ5W0WdjBAMARjBEAiBjW5IQf9pvsYLfQFX6hoGREPMHbdQ3urbllzalAp\
kptQIgIpwtEroeW2BXaHAI4kJXFbon5Ch9MNL5zRNZ55lvGt0=
— arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW\
9g8Ei59RA23oHP7Ry1k3ZFWwQ=
— remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WB\
xtqB0DrAWfBw==
""".encode()
WITNESSED_AT = 0x6A122120

names = st.text(min_size=1, max_size=20).filter(lambda name: name.isprintable() and not set(name) & {" ", "+"})
texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.just("\n")).map(lambda text: f"{text}\n")
lines = st.builds(Signature, names, st.binary(min_size=4, max_size=4), st.binary(min_size=1, max_size=80))


def refusal(action, *arguments) -> str:
    """The code with which a call is refused."""
    with pytest.raises(FormatError) as caught:
        action(*arguments)
    return caught.value.code


@pytest.fixture
def key() -> SigningKey:
    """The published signing key of the first example."""
    return SigningKey("PeterNeumann", Ed25519PrivateKey.from_private_bytes(SEED))


def test_the_published_note_is_written_byte_for_byte(key: SigningKey) -> None:
    """Ed25519 is deterministic, so signing again gives the published line."""
    assert key.verifier().text() == PETER
    assert Note(TEXT, (key.sign(TEXT),)).encode() == PUBLISHED


def test_the_published_note_verifies() -> None:
    """Under its published key."""
    key = parse_verifier_key(PETER)
    note = parse_note(PUBLISHED)
    assert note.text == TEXT
    assert check_signatures(note, [key]) == (Signed(key, None),)


def test_a_public_cosigned_checkpoint_verifies() -> None:
    """A log's signature and a witness's dated cosignature of the same text; a third key is unknown."""
    log, witness = parse_verifier_key(LOG), parse_verifier_key(WITNESS)
    assert (log.algorithm, witness.algorithm) == (ED25519, COSIGNATURE)
    note = parse_note(COSIGNED)
    assert len(note.signatures) == 3
    assert check_signatures(note, [witness, log]) == (Signed(log, None), Signed(witness, WITNESSED_AT))


def test_a_cosignature_covers_time_and_text(key: SigningKey) -> None:
    """Another time or another text under the same cosignature is refused."""
    line = key.cosign(TEXT, 1679315147)
    known = key.verifier(COSIGNATURE)
    assert check_signatures(Note(TEXT, (line,)), [known]) == (Signed(known, 1679315147),)
    later = Signature(line.name, line.key_id, (1679315148).to_bytes(8) + line.payload[8:])
    assert refusal(check_signatures, Note(TEXT, (later,)), [known]) == "bad_signature"
    assert refusal(check_signatures, Note("other\n", (line,)), [known]) == "bad_signature"


def test_a_cosignature_after_the_largest_time_is_refused(key: SigningKey) -> None:
    """Times end at 2**63 - 1, even when the signature over a larger one is right."""
    time = 2**63
    message = f"cosignature/v1\ntime {time}\n{TEXT}".encode()
    known = key.verifier(COSIGNATURE)
    line = Signature(key.name, known.key_id, time.to_bytes(8) + key.private.sign(message))
    assert refusal(check_signatures, Note(TEXT, (line,)), [known]) == "bad_signature"


def test_a_plain_signature_is_no_cosignature(key: SigningKey) -> None:
    """The two kinds have different ids, and neither passes under the other's."""
    plain, dated = key.verifier(), key.verifier(COSIGNATURE)
    assert plain.key_id != dated.key_id
    assert check_signatures(Note(TEXT, (key.sign(TEXT),)), [dated]) == ()
    for known, payload in ((plain, key.cosign(TEXT, 1).payload), (dated, key.sign(TEXT).payload)):
        line = Signature(key.name, known.key_id, payload)
        assert refusal(check_signatures, Note(TEXT, (line,)), [known]) == "bad_signature"


@pytest.mark.parametrize("place", range(64))
def test_a_known_key_with_any_byte_of_its_signature_changed_is_refused(place: int, key: SigningKey) -> None:
    """A failing known key is an error, never a missing signature."""
    line = key.sign(TEXT)
    payload = bytearray(line.payload)
    payload[place] ^= 1
    note = Note(TEXT, (Signature(line.name, line.key_id, bytes(payload)),))
    assert refusal(check_signatures, note, [key.verifier()]) == "bad_signature"


def test_unknown_keys_are_ignored_even_with_a_known_name_or_id(key: SigningKey) -> None:
    """Name and id together make a key known; one of the two does not."""
    wrong = b"\x01" * 64
    known = key.verifier()
    strangers = Signature(key.name, b"\x00" * 4, wrong), Signature("Other", known.key_id, wrong)
    assert check_signatures(Note(TEXT, (*strangers, key.sign(TEXT))), [known]) == (Signed(known, None),)
    assert check_signatures(Note(TEXT, strangers), [known]) == ()
    assert check_signatures(parse_note(PUBLISHED), []) == ()


def test_a_repeated_line_counts_once(key: SigningKey) -> None:
    """One key cannot stand for two."""
    assert check_signatures(Note(TEXT, (key.sign(TEXT),) * 3), [key.verifier()] * 2) == (Signed(key.verifier(), None),)


def test_two_keys_of_one_name_and_id_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A collision of ids is not resolved by guessing."""
    monkeypatch.setattr(VerifierKey, "key_id", b"\x00" * 4)
    keys = [VerifierKey("a", ED25519, bytes([number]) * 32) for number in (1, 2)]
    assert refusal(check_signatures, parse_note(PUBLISHED), keys) == "bad_key"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        TEXT.encode(),
        f"{TEXT}\n".encode(),
        PUBLISHED[:-1],
        PUBLISHED + b"\n",
        b"\x01" + PUBLISHED,
        b"\xff" + PUBLISHED,
        b"\t" + PUBLISHED,
        f"\n{LINE}".encode(),
        PUBLISHED.replace(b"\n", b"\r\n"),
        f"{TEXT}{LINE}".encode(),
        f"{TEXT}\n{LINE}Unexpected line.\n".encode(),
        f"{TEXT}\n{LINE}\n{LINE}"[:-1].encode(),
        PUBLISHED.replace("— ".encode(), b"- "),
        PUBLISHED.replace("— ".encode(), "—  ".encode()),
        PUBLISHED.replace(b"Neumann x", b"Neumann  x"),
        PUBLISHED.replace(b"Neumann x", b" Neumann x"),
        PUBLISHED.replace(b"Neumann x", b"+Neumann x"),
        PUBLISHED.replace(b"Neumann x", "\N{NO-BREAK SPACE}Neumann x".encode()),
        PUBLISHED.replace(b"PeterNeumann ", b""),
        PUBLISHED.replace(b"nAM=", b"nAM"),
        PUBLISHED.replace(b"nAM=", b"nAN="),
        PUBLISHED.replace(b"nAM=", b"nAM= "),
        PUBLISHED.replace(b"go/Z", b"go_Z"),
        f"{TEXT}\n— a AAAA\n".encode(),
        f"{TEXT}\n— a AAAAAA==\n".encode(),
        f"{TEXT}\n{LINE * (MAX_SIGNATURES + 1)}".encode(),
    ],
)
def test_notes_in_another_spelling_are_refused(data: bytes) -> None:
    """Line ends, blanks, dashes, base64 and text are exactly as a writer puts them."""
    assert refusal(parse_note, data) == "bad_note"


@given(texts, st.lists(lines, min_size=1, max_size=3))
def test_every_note_reads_back(text: str, signatures: list[Signature]) -> None:
    """Blank lines and dashes in the text included."""
    note = Note(text, tuple(signatures))
    assert parse_note(note.encode()) == note


@given(st.integers(0, len(PUBLISHED) - 1), st.integers(1, 255))
def test_no_changed_byte_leaves_the_signature_standing(place: int, change: int) -> None:
    """Flip any byte of a note: it does not parse, fails, or is signed by nobody known."""
    data = bytearray(PUBLISHED)
    data[place] ^= change
    try:
        signed = check_signatures(parse_note(bytes(data)), [parse_verifier_key(PETER)])
    except FormatError:
        return
    assert signed == ()


def test_a_note_holds_the_most_signatures_it_may() -> None:
    """A hundred, well above the sixteen every reader has to take."""
    assert len(parse_note(f"{TEXT}\n{LINE * MAX_SIGNATURES}".encode()).signatures) == MAX_SIGNATURES


@pytest.mark.parametrize(
    "note",
    [("text", True), ("a\tb\n", True), ("\ud800\n", True), ("text\n", False)],
    ids=["open", "tab", "half", "bare"],
)
def test_notes_that_could_not_be_read_back_cannot_be_made(note: tuple[str, bool], key: SigningKey) -> None:
    """No final newline, a control character, half a character, no signature."""
    text, signed = note
    assert refusal(Note, text, (key.sign(TEXT),) if signed else ()) == "bad_note"


@pytest.mark.parametrize("place", range(len(PETER)))
def test_verifier_keys_with_a_changed_character_are_refused(place: int) -> None:
    """The id fits name and key, so no character can change."""
    assert refusal(parse_verifier_key, PETER[:place] + chr(ord(PETER[place]) + 1) + PETER[place + 1 :]) == "bad_key"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "PeterNeumann",
        PETER[:-1],
        PETER[1:],
        f"{PETER}\n",
        PETER.replace("c74f20a3", "C74F20A3"),
        "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
        "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW",
        "rekor.sigstore.dev+12345678+AwEB",
        "example+00000000+AQ==",
        "é+00000000+é",
    ],
)
def test_keys_of_other_kinds_lengths_and_spellings_are_refused(text: str) -> None:
    """Two of them are the published wrong keys whose id fits: a key too long and an unknown algorithm."""
    assert refusal(parse_verifier_key, text) == "bad_key"


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb", "a\N{EM SPACE}b", "a\u2028b", "\ud800"])
def test_names_that_would_break_a_line_are_no_key_names(name: str) -> None:
    """Spaces of any kind, plus signs and unprintable characters."""
    assert refusal(VerifierKey, name, ED25519, bytes(32)) == "bad_key"
