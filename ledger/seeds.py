"""Seeds derived from a registration: whoever rewrites history has to re-run everything it seeded."""

from __future__ import annotations

_SALT = b"ledger/1/seed"


def hkdf_sha256(key: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """HKDF (RFC 5869) with SHA-256; ``length`` is at most 8,160 bytes."""
    # Imported here: the library takes longer to load than `ledger --help` may.
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=length, salt=salt or None, info=info).derive(key)


def run_seed(registration_leaf_hex: str, label: str) -> int:
    """Return a seed in [0, 2**63) for one use, told apart from other uses by ``label``.

    ``registration_leaf_hex`` is the leaf hash of the registration entry, 64 hex digits.
    """
    leaf = bytes.fromhex(registration_leaf_hex)
    if len(leaf) != 32:
        raise ValueError(f"found a leaf hash of {len(leaf)} bytes, expected 32")
    return int.from_bytes(hkdf_sha256(leaf, _SALT, label.encode("utf-8"), 8), "big") >> 1
