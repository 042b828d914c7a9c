"""The text of a checkpoint: origin, size and root of a ledger at one moment (C2SP layout, unsigned here)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass

from ledger import shapes
from ledger.errors import FormatError
from ledger.merkle import tree_root


@dataclass(frozen=True)
class Checkpoint:
    """``size`` entries of ``origin`` have the 32-byte RFC 6962 root ``root``."""

    origin: str
    size: int
    root: bytes

    def text(self) -> str:
        """Three lines: origin, size in decimal, root in base64."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode('ascii')}\n"


def checkpoint_of(origin: str, leaves: Sequence[str]) -> Checkpoint:
    """Checkpoint over hex leaf hashes in order."""
    return Checkpoint(origin, len(leaves), tree_root([bytes.fromhex(leaf) for leaf in leaves]))


def parse_checkpoint(text: str) -> Checkpoint:
    """Parse a checkpoint text, refusing anything that would not be written the same way again."""
    lines = text.split("\n")
    try:
        if len(lines) != 4:
            raise ValueError(f"{len(lines)} lines")
        shapes.origin(lines[0], "checkpoint origin")
        parsed = Checkpoint(lines[0], int(lines[1]), base64.b64decode(lines[2], validate=True))
    except (ValueError, binascii.Error) as error:
        raise FormatError("bad_checkpoint", f"found a checkpoint that cannot be read ({error})") from None
    if parsed.text() != text or parsed.size < 0 or len(parsed.root) != 32:
        raise FormatError("bad_checkpoint", "found a checkpoint in another spelling than origin, size, root")
    return parsed
