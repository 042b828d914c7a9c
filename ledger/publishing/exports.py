"""Export one registration: find it, prove it, sign it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ledger.canonical import canonical
from ledger.entry import GRADED
from ledger.errors import UsageError
from ledger.publishing.redaction import stored_salt
from ledger.publishing.standing import Standing, prove_inclusion, sound_chain
from ledger.publishing.statements import Statement, seal

if TYPE_CHECKING:
    from ledger.signing.notes import VerifierKey


def export_registration(root: Path, branch: str, seq: int, key_name: str) -> tuple[bytes, VerifierKey, Standing]:
    """The signed envelope over registration or amendment ``seq``, who signed it, and what its proof stands on.

    UsageError when the entry is no registration, its body is withheld here, or the key cannot be used.
    """
    from ledger.signing.keys import load_key

    chain = sound_chain(root, branch)
    proof, ground = prove_inclusion(chain, seq)
    entry = chain.entries[seq]
    if entry.kind not in GRADED:
        raise UsageError(f"entry #{seq} is a {entry.kind}, expected a {' or '.join(GRADED)} entry; see `ledger log`")
    if entry.body is None:
        raise UsageError(f"the body of #{seq} is withheld here; export it where it is kept")
    key = load_key(key_name, root)
    statement = Statement(proof, canonical(dict(entry.body)), stored_salt(chain.path, entry).decode("ascii"))
    return seal(statement.encode(), key), key.verifier(), ground
