"""RFC 6962 trees: hashes, roots, compact ranges, and proofs of inclusion and of consistency.

0x00 goes before leaves and 0x01 before interior nodes. Every hash is 32 bytes. A level is halved by hashing
neighbours; a last node without a neighbour moves up as it is, which gives the tree of section 2.1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ledger.errors import FormatError

HASH_SIZE = 32


def leaf_hash(data: bytes) -> bytes:
    """Hash of one stored entry, 32 bytes; the next entry's ``prev`` is its hex form."""
    return hashlib.sha256(b"\x00" + data).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Hash of an interior node over two 32-byte hashes."""
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass(frozen=True)
class Range:
    """The first ``size`` leaves of a tree, as the roots of its complete subtrees, largest first.

    One 32-byte node stands for each bit set in ``size``, so a tree of any size fits in a few hundred bytes
    and can be extended without its leaves. Raises FormatError ``bad_range`` for anything else.
    """

    size: int
    nodes: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if self.size < 0 or len(self.nodes) != self.size.bit_count():
            raise FormatError(
                "bad_range",
                f"found {len(self.nodes)} subtrees for {self.size} leaves, expected one for each bit of that number",
            )
        _check_hashes("bad_range", self.nodes)

    @classmethod
    def empty(cls) -> Range:
        """The range over no leaf."""
        return cls(0, ())

    def extend(self, leaves: Iterable[bytes]) -> Range:
        """Return the range with 32-byte leaf hashes added at the end; one hash or two for each leaf."""
        size, stack = self.size, list(self.nodes)
        sha256 = hashlib.sha256
        for leaf in leaves:
            if len(leaf) != HASH_SIZE:
                _check_hashes("bad_range", (leaf,))
            size += 1
            node, finished = leaf, size
            while not finished & 1:
                node = sha256(b"\x01" + stack.pop() + node).digest()
                finished >>= 1
            stack.append(node)
        return Range(size, tuple(stack))

    def root(self) -> bytes:
        """Root of the tree over these leaves, 32 bytes; the empty tree is SHA-256 of nothing."""
        if not self.nodes:
            return hashlib.sha256().digest()
        *larger, root = self.nodes
        for node in reversed(larger):
            root = node_hash(node, root)
        return root


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """Root over 32-byte leaf hashes (RFC 6962 section 2.1), in a logarithmic amount of memory."""
    return Range.empty().extend(leaves).root()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Siblings from leaf ``index`` up to the root of the tree over all ``leaves``, 32 bytes each."""
    if not 0 <= index < len(leaves):
        raise FormatError("bad_proof", f"found leaf {index}, expected a leaf of a tree of {len(leaves)}")
    _check_hashes("bad_proof", leaves)
    return tuple(_siblings(list(leaves), index))


def verify_inclusion(index: int, size: int, leaf: bytes, proof: Sequence[bytes], root: bytes) -> None:
    """Check that ``leaf`` is leaf ``index`` of the tree of ``size`` leaves with ``root``.

    All hashes are 32 bytes. Raises FormatError ``bad_proof`` unless the proof shows exactly that.
    """
    if not 0 <= index < size:
        raise FormatError("bad_proof", f"found leaf {index} in a tree of {size}, expected an index below the size")
    _check_hashes("bad_proof", (leaf, *proof, root))
    reached = leaf
    for sibling, is_left in _climb(index, size - 1, proof):
        reached = node_hash(sibling, reached) if is_left else node_hash(reached, sibling)
    _check_root(reached, root, size)


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> tuple[bytes, ...]:
    """Nodes that show the tree over the first ``old_size`` leaves to be a prefix of the one over ``leaves``.

    Empty when both are the same tree. Raises FormatError ``bad_proof`` for an old size of 0, which is a
    prefix of everything and proves nothing, or one above the number of leaves.
    """
    _check_sizes(old_size, len(leaves))
    _check_hashes("bad_proof", leaves)
    if old_size == len(leaves):
        return ()
    level, node = list(leaves), old_size - 1
    while node & 1:
        level, node = _parents(level), node >> 1
    # The last complete subtree of the old tree; when it is the whole old tree, the verifier has its root.
    start = [level[node]] if node else []
    return (*start, *_siblings(level, node))


def verify_consistency(old_size: int, size: int, old_root: bytes, root: bytes, proof: Sequence[bytes]) -> None:
    """Check that the tree of ``old_size`` leaves with ``old_root`` is a prefix of the one of ``size`` with ``root``.

    Raises FormatError ``bad_proof`` unless the proof shows exactly that, and for an old size of 0. Between
    equal sizes nothing is hashed: the roots must be the same bytes and the proof empty.
    """
    _check_sizes(old_size, size)
    if old_size == size:
        if proof:
            raise FormatError("bad_proof", f"found {len(proof)} hashes between equal sizes, expected an empty proof")
        _check_root(old_root, root, size)
        return
    _check_hashes("bad_proof", (old_root, root, *proof))
    node, last = old_size - 1, size - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    start, rest = old_root, tuple(proof)
    if node:
        if not rest:
            raise FormatError("bad_proof", f"found an empty proof from size {old_size} to {size}, expected hashes")
        start, rest = rest[0], rest[1:]
    old = new = start
    for sibling, is_left in _climb(node, last, rest):
        if is_left:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
        else:  # to the right of the old tree, so only the new one holds it
            new = node_hash(new, sibling)
    _check_root(old, old_root, old_size)
    _check_root(new, root, size)


def _parents(level: Sequence[bytes]) -> list[bytes]:
    above = [node_hash(level[left], level[left + 1]) for left in range(0, len(level) - 1, 2)]
    return [*above, level[-1]] if len(level) % 2 else above


def _siblings(level: list[bytes], node: int) -> Iterator[bytes]:
    """Siblings on the way from ``node`` of ``level`` to the root."""
    while len(level) > 1:
        if node ^ 1 < len(level):
            yield level[node ^ 1]
        level, node = _parents(level), node >> 1


def _climb(node: int, last: int, proof: Sequence[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each sibling with whether it stands to the left, from ``node`` up; ``last`` is the level's last node."""
    for sibling in proof:
        while last and node == last and not node & 1:  # moves up without a sibling
            node, last = node >> 1, last >> 1
        if not last:
            raise FormatError("bad_proof", "found a proof with more hashes than the tree has levels")
        yield sibling, bool(node & 1)
        node, last = node >> 1, last >> 1
    if last:
        raise FormatError("bad_proof", "found a proof that ends below the root, expected a hash for every level")


def _check_hashes(code: str, hashes: Iterable[bytes]) -> None:
    for value in hashes:
        if len(value) != HASH_SIZE:
            raise FormatError(code, f"found a hash of {len(value)} bytes, expected {HASH_SIZE}")


def _check_sizes(old_size: int, size: int) -> None:
    if not 1 <= old_size <= size:
        raise FormatError("bad_proof", f"found the old size {old_size}, expected 1 to {size}, the size of the tree")


def _check_root(reached: bytes, root: bytes, size: int) -> None:
    if reached != root:
        raise FormatError(
            "bad_proof", f"the proof leads to the root {reached.hex()} at size {size}, expected {root.hex()}"
        )
