"""RFC 6962 tree hashes: 0x00 before leaves, 0x01 before interior nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def leaf_hash(data: bytes) -> bytes:
    """Hash of one stored entry, 32 bytes; the next entry's ``prev`` is its hex form."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an interior node over two 32-byte hashes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Root over leaf hashes (RFC 6962 section 2.1); the empty tree is SHA-256 of nothing.

    Complete subtrees wait on a stack, one for each bit set in the number of leaves seen so far, so a
    tree of any size needs a logarithmic amount of memory.
    """
    if not leaves:
        return hashlib.sha256().digest()
    stack: list[bytes] = []
    for count, leaf in enumerate(leaves, start=1):
        node = leaf
        while count % 2 == 0:
            node = node_hash(stack.pop(), node)
            count //= 2  # noqa: PLW2901 (counts finished levels of this leaf only)
        stack.append(node)
    root = stack.pop()
    while stack:
        root = node_hash(stack.pop(), root)
    return root
