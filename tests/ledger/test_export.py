"""`ledger export`: a registration as a signed in-toto statement."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from ledger.canonical import canonical
from ledger.cli import main
from ledger.entry import body_commitment
from ledger.errors import FormatError
from ledger.publishing.statements import check_envelope, key_id, open_envelope, parse_statement, seal
from ledger.signing.keys import SigningKey, load_key


@pytest.fixture
def root(shared_ledger: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a key; commands are typed in its folder."""
    monkeypatch.chdir(shared_ledger)
    monkeypatch.setenv("LEDGER_KEYS", str(tmp_path_factory.mktemp("keys")))
    assert main(["key", "new", "ours"]) == 0
    return shared_ledger


@pytest.fixture
def key(root: Path) -> SigningKey:
    """The key that signs."""
    return load_key("ours", root)


@pytest.fixture
def envelope(root: Path) -> bytes:
    """The export of registration 1."""
    assert main(["export", "1", "--branch", "main", "--key", "ours", "--out", "e.json"]) == 0
    return Path("e.json").read_bytes()


def test_the_statement_names_what_was_registered(root: Path, envelope: bytes) -> None:
    """In-toto fields, one subject for each pinned file, and its digest is that of the file on the disk."""
    outer = json.loads(envelope)
    assert outer["payloadType"] == "application/vnd.in-toto+json"
    statement = json.loads(base64.b64decode(outer["payload"]))
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["predicateType"] == "urn:ridgefill:ledger:registration:v1"
    digests = {item["name"]: item["digest"]["sha256"] for item in statement["subject"]}
    assert set(digests) == {"workflow/claims/demo.yaml", "workflow/config/demo.yaml", "workflow/config/model.yaml"}
    for name, digest in digests.items():
        assert hashlib.sha256((root / name).read_bytes()).hexdigest() == digest


def test_the_predicate_opens_the_entry(root: Path, envelope: bytes) -> None:
    """Header, body and salt are those stored, and together they give the commitment and the leaf."""
    predicate = json.loads(base64.b64decode(json.loads(envelope)["payload"]))["predicate"]
    folder = root / "data/ledger/main"
    header, body = canonical(predicate["header"]), canonical(predicate["body"])
    assert header == (folder / "entries/00000001.json").read_bytes()
    assert body == (folder / "bodies/00000001.json").read_bytes()
    assert predicate["salt"] == (folder / "salts/00000001").read_text()
    assert body_commitment(bytes.fromhex(predicate["salt"]), body) == predicate["header"]["body_commit"]
    assert hashlib.sha256(b"\x00" + header).hexdigest() == predicate["leaf"]


def test_another_library_verifies_the_signature(envelope: bytes, key: SigningKey) -> None:
    """The envelope verifies with nothing but securesystemslib and the 32 bytes of the public key."""
    parsed = Envelope.from_dict(json.loads(envelope))
    name = key_id(key.verifier())
    public = SSlibKey(name, "ed25519", "ed25519", {"public": key.public.hex()})
    assert parsed.verify([public], 1) == {name: public}
    parsed.payload += b" "
    with pytest.raises(VerificationError):
        parsed.verify([public], 1)


def test_only_known_keys_count_and_their_signatures_must_verify(envelope: bytes, key: SigningKey) -> None:
    """The signer is found; nobody is known without keys; a signature moved from another payload is refused."""
    opened = open_envelope(envelope)
    assert check_envelope(opened, [key.verifier()]) == (key.verifier(),)
    assert check_envelope(opened, []) == ()
    opened.signatures = open_envelope(seal(b"{}", key)).signatures
    with pytest.raises(FormatError, match="not over this statement"):
        check_envelope(opened, [key.verifier()])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("subject", 0, "digest", "sha256"), "0" * 64),
        (("subject", 0, "name"), "other.yaml"),
        (("predicate", "leaf"), "0" * 64),
        (("predicate", "salt"), "0" * 64),
        (("predicate", "body", "experiment"), "other"),
        (("predicate", "header", "seq"), 2),
        (("predicate", "inclusion", "size"), 5),
        (("predicate", "inclusion", "index"), 2),
        (("predicateType",), "urn:other"),
    ],
)
def test_a_statement_that_contradicts_itself_is_refused(envelope: bytes, path: tuple, value: object) -> None:
    """However it is signed: subjects, leaf, body and numbers have to be those of the entry inside."""
    statement = json.loads(open_envelope(envelope).payload)
    place = statement
    for step in path[:-1]:
        place = place[step]
    assert place[path[-1]] != value
    place[path[-1]] = value
    with pytest.raises(FormatError):
        parse_statement(canonical(statement))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["1"], "ledger key new NAME"),
        (["1", "--key", "absent"], "ledger key new absent"),
        (["2", "--key", "ours"], "is a start"),
        (["9", "--key", "ours"], "expected 0 to 5"),
    ],
)
def test_an_export_that_cannot_be_made_says_what_to_type(
    root: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No key, an unknown key, an entry that is no registration, no such entry: exit 2, nothing printed."""
    capsys.readouterr()
    assert main(["export", *arguments, "--branch", "main"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err


def test_a_withheld_registration_is_not_exported(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where body and salt are gone there is nothing to export."""
    for folder, name in (("bodies", "00000001.json"), ("salts", "00000001")):
        (root / "data/ledger/main" / folder / name).unlink()
    assert main(["export", "1", "--branch", "main", "--key", "ours"]) == 2
    assert "withheld" in capsys.readouterr().err


@pytest.mark.parametrize("change", [b" ", b"\n"])
def test_an_envelope_in_another_spelling_is_refused(envelope: bytes, change: bytes) -> None:
    """Trailing bytes, and base64 whose unused bits are set."""
    with pytest.raises(FormatError):
        open_envelope(envelope + change)
    value = json.loads(envelope)
    signature = value["signatures"][0]
    loose = {"A": "B", "Q": "R", "g": "h", "w": "x"}
    signature["sig"] = signature["sig"][:-3] + loose[signature["sig"][-3]] + "=="
    with pytest.raises(FormatError, match="another spelling"):
        open_envelope(canonical(value))
    signature["sig"] = "é"
    with pytest.raises(FormatError, match="cannot be read"):
        open_envelope(canonical(value))
