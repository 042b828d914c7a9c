"""Private signing keys: Ed25519 in PKCS8 PEM files of mode 0600, in a folder outside every project."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from ledger.errors import FormatError, UsageError, WriteFailed
from ledger.files import sync_folder
from ledger.signing.notes import (
    COSIGNATURE,
    ED25519,
    MAX_TIME,
    TIME_SIZE,
    Signature,
    VerifierKey,
    check_key_name,
    cosigned_message,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def keys_folder() -> Path:
    """Where keys lie: $LEDGER_KEYS, else $XDG_CONFIG_HOME/ledger/keys, else ~/.config/ledger/keys."""
    try:
        if named := os.environ.get("LEDGER_KEYS"):
            return Path(named).expanduser()
        # The base directory rules say to ignore a relative path here.
        config = os.environ.get("XDG_CONFIG_HOME", "")
        base = Path(config) if os.path.isabs(config) else Path.home() / ".config"
    except RuntimeError:
        raise UsageError("found no home folder for signing keys; set LEDGER_KEYS to a folder for them") from None
    return base / "ledger" / "keys"


@dataclass(frozen=True)
class SigningKey:
    """A named private key."""

    name: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> bytes:
        """The public key, 32 bytes."""
        return self.private.public_key().public_bytes_raw()

    def verifier(self, algorithm: int = ED25519) -> VerifierKey:
        """The public key as verifiers know it, for signatures or for cosignatures."""
        return VerifierKey(self.name, algorithm, self.public)

    def sign(self, text: str) -> Signature:
        """Sign a note text."""
        return Signature(self.name, self.verifier().key_id, self.private.sign(text.encode()))

    def cosign(self, text: str, time: int) -> Signature:
        """Cosign a checkpoint text at ``time`` (POSIX seconds)."""
        if not 0 <= time <= MAX_TIME:
            raise UsageError(f"found the time {time}, expected POSIX seconds from 0 to 2**63 - 1")
        payload = time.to_bytes(TIME_SIZE) + self.private.sign(cosigned_message(text, time))
        return Signature(self.name, self.verifier(COSIGNATURE).key_id, payload)


def create_key(name: str, root: Path) -> SigningKey:
    """Make a key and store it durably, readable by its owner only.

    Raises UsageError for a name no key can have, for one that is taken, and when the keys folder lies in the
    project ``root``; WriteFailed when the system refuses.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    path = _key_path(name)
    _refuse_inside(path.parent, root)
    private = Ed25519PrivateKey.generate()
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _store(path, pem)
    except FileExistsError:
        raise UsageError(f"there is a key {name!r} in {path.parent} already; use another name") from None
    except OSError as failure:
        raise WriteFailed(f"cannot write the key {path} ({failure.strerror}); make room or allow writing") from None
    return SigningKey(name, private)


def load_key(name: str, root: Path) -> SigningKey:
    """Read a key. Raises UsageError when it is missing, readable by others, no Ed25519 key, or inside ``root``."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = _key_path(name)
    _refuse_inside(path, root)
    try:
        pem = _read_private(path)
    except FileNotFoundError:
        raise UsageError(
            f"found no key {name!r} in {path.parent}; type `ledger key new {name}` to make one, "
            "or set LEDGER_KEYS to the folder that has it"
        ) from None
    except OSError as failure:
        raise UsageError(f"cannot read the key {path} ({failure.strerror}); allow its owner to read it") from None
    try:
        private = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # TypeError: locked with a password
        private = None
    if not isinstance(private, Ed25519PrivateKey):
        raise UsageError(f"found other bytes in {path}, expected an Ed25519 private key in PEM without a password")
    return SigningKey(name, private)


def _key_path(name: str) -> Path:
    try:
        check_key_name(name)
    except FormatError as error:
        raise UsageError(str(error)) from None
    # Names may be addresses with slashes; quoted, every name is one plain file name.
    return keys_folder() / f"{quote(name, safe='')}.pem"


def _refuse_inside(path: Path, root: Path) -> None:
    if path.resolve().is_relative_to(root.resolve()):
        raise UsageError(
            f"{path} lies inside the project {root}, where private keys could be published; "
            "set LEDGER_KEYS to a folder outside of it"
        )


def _store(path: Path, pem: bytes) -> None:
    """Create ``path`` whole or not at all; FileExistsError when it is there."""
    temporary = path.with_name(f"{secrets.token_hex(16)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(pem)
            stream.flush()
            os.fsync(stream.fileno())
        os.link(temporary, path)
        sync_folder(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _read_private(path: Path) -> bytes:
    with path.open("rb") as stream:
        if os.name == "posix" and stat.S_IMODE(os.fstat(stream.fileno()).st_mode) & _OTHERS:
            raise UsageError(f"{path} can be read by others, expected its owner only; type `chmod 600 '{path}'`")
        return stream.read()
