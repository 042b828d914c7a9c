"""A timestamp authority for tests, offline: certificates of our making, signatures by ``openssl``."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HAS_OPENSSL = shutil.which("openssl") is not None
NO_OPENSSL = "there is no openssl command here to make timestamps with"
TIMESTAMPING, SERVER = ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.SERVER_AUTH
TOKEN_TYPE = "1.2.840.113549.1.9.16.1.4"
DIGESTS = {"sha256": "608648016503040201", "sha512": "608648016503040203", "sha3_256": "608648016503040208"}
CONFIGURATION = """\
[tsa]
default_tsa = default
[default]
serial = {folder}/serial
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
"""


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content


class Authority:
    """A root, perhaps an intermediate, and a signer, all valid from ``start`` to ``end``."""

    def __init__(
        self,
        folder: Path,
        usage: x509.ObjectIdentifier | None = TIMESTAMPING,
        critical: bool = True,
        intermediate: bool = False,
        start: datetime = datetime(2020, 1, 1, tzinfo=UTC),
        end: datetime = datetime(2020, 1, 3, tzinfo=UTC),
    ) -> None:
        self.folder, self.start, self.end = folder, start, end
        issuer = self._issue("root", None)
        self.root_pem = (folder / "root.pem").read_bytes()
        if intermediate:
            issuer = self._issue("intermediate", issuer)
        self._issue("signer", issuer, usage, critical)
        (folder / "openssl.cnf").write_text(CONFIGURATION.format(folder=folder))

    def _issue(self, name, issuer, usage=None, critical=True):
        key = ec.generate_private_key(ec.SECP256R1())
        issuer_name, issuer_key = issuer or (_name(name), key)
        certificate = (
            x509.CertificateBuilder(issuer_name, _name(name), key.public_key(), x509.random_serial_number())
            .not_valid_before(self.start)
            .not_valid_after(self.end)
            .add_extension(x509.BasicConstraints(ca=name != "signer", path_length=None), critical=True)
        )
        if usage:
            certificate = certificate.add_extension(x509.ExtendedKeyUsage([usage]), critical)
        pem = certificate.sign(issuer_key, hashes.SHA256()).public_bytes(Encoding.PEM)
        (self.folder / f"{name}.pem").write_bytes(pem)
        secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / f"{name}.key").write_bytes(secret)
        return _name(name), key

    def reply(self, message: bytes, time: datetime | None = None, digest: str = "sha256", hashed: bytes = b"") -> bytes:
        """A granted reply that puts ``time`` (one day after the start by default) on ``message``.

        ``hashed`` stands in for the hash that ``digest`` names.
        """
        time = time or self.start + timedelta(days=1)
        algorithm = _der(0x30, _der(0x06, bytes.fromhex(DIGESTS[digest])), _der(0x05))
        imprint = _der(0x30, algorithm, _der(0x04, hashed or hashlib.new(digest, message).digest()))
        policy, stated = _der(0x06, b"\x2a\x03\x04"), _der(0x18, time.strftime("%Y%m%d%H%M%SZ").encode())
        info = _der(0x30, _der(0x02, b"\x01"), policy, imprint, _der(0x02, b"\x07"), stated)
        chain = ["-certfile", "intermediate.pem"] if (self.folder / "intermediate.pem").exists() else []
        arguments = ["-binary", "-nodetach", "-nosmimecap", "-outform", "DER", "-econtent_type", TOKEN_TYPE, *chain]
        signer = ["-signer", "signer.pem", "-inkey", "signer.key", "-md", "sha256"]
        token = self._openssl("cms", "-sign", *signer, *arguments, data=info)
        return _der(0x30, _der(0x30, _der(0x02, b"\x00")), token)

    def answer(self, request: bytes) -> bytes:
        """The reply of ``openssl ts`` to a DER request, dated now; a refusal when it takes offence."""
        (self.folder / "request.tsq").write_bytes(request)
        signer = ["-signer", "signer.pem", "-inkey", "signer.key"]
        return self._openssl("ts", "-reply", "-config", "openssl.cnf", "-queryfile", "request.tsq", *signer)

    def describe(self, request: bytes) -> str:
        """What ``openssl ts`` reads in a DER request."""
        (self.folder / "request.tsq").write_bytes(request)
        return self._openssl("ts", "-query", "-in", "request.tsq", "-text").decode()

    def _openssl(self, *arguments: str, data: bytes | None = None) -> bytes:
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, input=data, capture_output=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return done.stdout
