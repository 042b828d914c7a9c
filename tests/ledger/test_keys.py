"""Private keys: where they lie, who may read them, and never inside the project."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from ledger.errors import LedgerError, UsageError, WriteFailed
from ledger.signing.keys import create_key, keys_folder, load_key
from ledger.signing.notes import COSIGNATURE, Note, check_signatures, parse_verifier_key

POSIX = pytest.mark.skipif(os.name != "posix", reason="file modes are a matter of POSIX systems")
AWKWARD = ["a", "example.com/w1", "..", ".", "../up", "a/../../b", "C:\\x", "näme", "a%2Fb"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project folder."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The keys folder, not there yet."""
    monkeypatch.setenv("LEDGER_KEYS", str(tmp_path / "keys"))
    return tmp_path / "keys"


def pem(key: object = None, password: bytes | None = None) -> bytes:
    """A private key as PEM."""
    lock = BestAvailableEncryption(password) if password else NoEncryption()
    key = key or ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)


def put(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Write a file with a mode."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)


@pytest.mark.parametrize("name", AWKWARD)
def test_a_key_that_was_made_can_be_loaded_and_signs(name: str, root: Path, folder: Path) -> None:
    """Whatever the name, it is one file in the keys folder and nothing else is left there."""
    made, loaded = create_key(name, root), load_key(name, root)
    assert loaded.public == made.public
    assert loaded.name == name
    assert len(list(folder.iterdir())) == 1
    note = Note("text\n", (loaded.sign("text\n"), loaded.cosign("text\n", 7)))
    known = [parse_verifier_key(made.verifier(kind).text()) for kind in (1, COSIGNATURE)]
    assert [signed.time for signed in check_signatures(note, known)] == [None, 7]


@POSIX
def test_only_the_owner_may_read_a_new_key(root: Path, folder: Path) -> None:
    """Mode 0600 in a folder of mode 0700, whatever the umask."""
    before = os.umask(0)
    try:
        create_key("me", root)
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "me.pem").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_taken_name_is_refused_and_its_key_kept(root: Path, folder: Path) -> None:
    """A key is never overwritten, and no temporary file stays."""
    made = create_key("me", root)
    with pytest.raises(UsageError, match="another name"):
        create_key("me", root)
    assert load_key("me", root).public == made.public
    assert [path.name for path in folder.iterdir()] == ["me.pem"]


@pytest.mark.parametrize("place", ["", "data/keys", "../project/keys"])
def test_a_keys_folder_inside_the_project_is_refused(place: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is written there, and for reading too."""
    monkeypatch.setenv("LEDGER_KEYS", str(root / place))
    for action in (create_key, load_key):
        with pytest.raises(UsageError, match="set LEDGER_KEYS to a folder outside"):
            action("me", root)
    assert not list(root.iterdir())


def test_a_link_into_the_project_is_refused(root: Path, folder: Path, tmp_path: Path) -> None:
    """Neither the folder nor the key itself may really lie in the project."""
    folder.symlink_to(root)
    with pytest.raises(UsageError, match="inside the project"):
        create_key("me", root)
    folder.unlink()
    folder.mkdir()
    put(root / "me.pem", pem())
    (folder / "me.pem").symlink_to(root / "me.pem")
    with pytest.raises(UsageError, match="inside the project"):
        load_key("me", root)


def test_a_missing_key_is_answered_with_the_folder_and_the_command(root: Path, folder: Path) -> None:
    """What was looked for, where, and what to type."""
    with pytest.raises(UsageError) as caught:
        load_key("me", root)
    assert str(folder) in str(caught.value)
    assert "`ledger key new me`" in str(caught.value)


@POSIX
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o777])
def test_a_key_others_could_read_is_refused(mode: int, root: Path, folder: Path) -> None:
    """With the command that repairs it."""
    put(folder / "me.pem", pem(), mode)
    with pytest.raises(UsageError, match=r"chmod 600 '.*me\.pem'"):
        load_key("me", root)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not a key",
        b"\xff\x00",
        pem()[:-40],
        pem(ec.generate_private_key(ec.SECP256R1())),
        pem(password=b"secret"),
        b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ],
    ids=["empty", "text", "binary", "cut", "other curve", "password", "no key"],
)
def test_files_that_are_no_ed25519_key_are_refused(data: bytes, root: Path, folder: Path) -> None:
    """Another kind of key and one locked with a password included."""
    put(folder / "me.pem", data)
    with pytest.raises(UsageError, match="expected an Ed25519 private key"):
        load_key("me", root)


def test_a_folder_in_place_of_a_key_is_refused(root: Path, folder: Path) -> None:
    """With a sentence, as any file the system does not read."""
    (folder / "me.pem").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot read the key"):
        load_key("me", root)


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\nb"])
@pytest.mark.parametrize("action", [create_key, load_key])
def test_names_no_note_can_carry_are_refused(action, name: str, root: Path, folder: Path) -> None:
    """The rule of key names is that of notes."""
    with pytest.raises(UsageError, match="key name"):
        action(name, root)
    assert not folder.exists()


@pytest.mark.parametrize("name", ["x" * 300, "\N{SNOWMAN}" * 100])
def test_a_name_longer_than_a_file_name_is_an_error_with_a_sentence(name: str, root: Path, folder: Path) -> None:
    """The system's refusal is passed on, with nothing left behind."""
    with pytest.raises(WriteFailed, match="cannot write the key"):
        create_key(name, root)
    assert not list(folder.iterdir())
    with pytest.raises(LedgerError, match="cannot read the key"):
        load_key(name, root)


@pytest.mark.parametrize("time", [-1, 2**63])
def test_times_a_cosignature_cannot_hold_are_refused(time: int, root: Path, folder: Path) -> None:
    """POSIX seconds of 63 bits."""
    with pytest.raises(UsageError, match="POSIX seconds"):
        create_key("me", root).cosign("text\n", time)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"LEDGER_KEYS": "/a/b", "XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/a/b"),
        ({"LEDGER_KEYS": "~/b", "HOME": "/h"}, "/h/b"),
        ({"LEDGER_KEYS": "", "XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/ledger/keys"),
        ({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}, "/h/.config/ledger/keys"),
        ({"HOME": "/h"}, "/h/.config/ledger/keys"),
    ],
)
@POSIX
def test_the_keys_folder_follows_the_environment(
    variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LEDGER_KEYS first, then an absolute XDG_CONFIG_HOME, then the home folder."""
    for name in ("LEDGER_KEYS", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert keys_folder() == Path(expected)
