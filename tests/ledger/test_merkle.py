"""RFC 6962 hashes and checkpoint texts."""

from __future__ import annotations

import hashlib

import pytest

from ledger.checkpoint import Checkpoint, checkpoint_of, parse_checkpoint
from ledger.errors import FormatError
from ledger.merkle import leaf_hash, node_hash, tree_root

LEAVES = [
    bytes.fromhex(text)
    for text in (
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]
ROOTS = {
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def naive_root(leaves: list[bytes]) -> bytes:
    """The definition of RFC 6962 section 2.1, recursion and all."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return node_hash(naive_root(leaves[:half]), naive_root(leaves[half:]))


@pytest.mark.parametrize("size", sorted(ROOTS))
def test_roots_of_the_customary_test_tree(size: int) -> None:
    """The tree every transparency log tests with has its published roots."""
    assert tree_root([leaf_hash(leaf) for leaf in LEAVES[:size]]).hex() == ROOTS[size]


@pytest.mark.parametrize("size", range(20))
def test_stack_and_recursion_agree(size: int) -> None:
    """The one-pass root equals the recursive definition at every size, the empty tree included."""
    leaves = [leaf_hash(bytes([index])) for index in range(size)]
    assert tree_root(leaves) == naive_root(leaves)


def test_checkpoint_text_reads_back() -> None:
    """A checkpoint is three lines and parses to itself."""
    point = checkpoint_of("main/1", ["ab" * 32, "cd" * 32])
    assert point.text().split("\n")[:2] == ["main/1", "2"]
    assert parse_checkpoint(point.text()) == point


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text + "\n",
        lambda text: text.rstrip("\n"),
        lambda text: text.replace("\n2\n", "\n02\n"),
        lambda text: text.replace("\n2\n", "\n-2\n"),
        lambda text: text.replace("\n2\n", "\n 2\n"),
        lambda text: text.replace("main", "ma in"),
        lambda text: text.replace("=", ""),
        lambda text: "",
    ],
)
def test_checkpoints_in_another_spelling_are_refused(change) -> None:
    """A number or hash that would not be written the same way again is refused."""
    text = Checkpoint("main/1", 2, bytes(32)).text()
    with pytest.raises(FormatError):
        parse_checkpoint(change(text))
