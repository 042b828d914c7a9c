"""Merkle proofs and compact ranges, against published probes and against their own definition."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatError
from ledger.merkle import (
    Range,
    consistency_proof,
    inclusion_proof,
    leaf_hash,
    node_hash,
    tree_root,
    verify_consistency,
    verify_inclusion,
)

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "merkle"
ABSENT = "the Merkle probes are not beside this checkout"
KINDS = ("inclusion", "consistency")
LEAVES = [leaf_hash(index.to_bytes(2)) for index in range(130)]


def probes(kind: str) -> list[Any]:
    """One parameter for each probe of a kind, or one that skips."""
    paths = sorted((VECTORS / kind).rglob("*.json"))
    if not paths:
        return [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT), id="absent")]
    return [pytest.param(path, id=path.relative_to(VECTORS / kind).as_posix()) for path in paths]


def decoded(value: str | list[str] | None) -> Any:
    """Bytes of base64 text, or a tuple of them for a list (null is an empty one)."""
    return base64.b64decode(value) if isinstance(value, str) else tuple(base64.b64decode(one) for one in value or ())


def holds(verify: Any, *arguments: Any) -> bool:
    """Whether a verification passes; anything but a refusal with the code of proofs is an error."""
    try:
        verify(*arguments)
    except FormatError as error:
        if error.code != "bad_proof":
            raise
        return False
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_98_probes_of_each_kind(kind: str) -> None:
    """None is left out by a changed folder."""
    if not VECTORS.is_dir():
        pytest.skip(ABSENT)
    assert len(probes(kind)) == 98


@pytest.mark.parametrize("path", probes("inclusion"))
def test_inclusion_probes_have_the_published_answer(path: Path) -> None:
    """Every published probe is accepted or refused as it says."""
    probe = json.loads(path.read_text())
    leaf, proof, root = (decoded(probe[name]) for name in ("leafHash", "proof", "root"))
    assert holds(verify_inclusion, probe["leafIdx"], probe["treeSize"], leaf, proof, root) != probe["wantErr"]


@pytest.mark.parametrize("path", probes("consistency"))
def test_consistency_probes_have_the_published_answer(path: Path) -> None:
    """Every published probe is accepted or refused as it says."""
    probe = json.loads(path.read_text())
    old_root, root, proof = (decoded(probe[name]) for name in ("root1", "root2", "proof"))
    assert holds(verify_consistency, probe["size1"], probe["size2"], old_root, root, proof) != probe["wantErr"]


def test_a_proof_in_the_customary_tree_is_the_published_one() -> None:
    """Leaf 5 of the eight-leaf tree every transparency log tests with."""
    inputs = "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"
    leaves = [leaf_hash(bytes.fromhex(text)) for text in inputs]
    assert [node.hex() for node in inclusion_proof(leaves, 5)] == [
        "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ]


@pytest.mark.parametrize("size", range(1, 34))
def test_every_generated_proof_verifies(size: int) -> None:
    """Every leaf of every small tree, and every smaller tree in it."""
    leaves = LEAVES[:size]
    root = tree_root(leaves)
    for index in range(size):
        verify_inclusion(index, size, leaves[index], inclusion_proof(leaves, index), root)
    for old in range(1, size + 1):
        verify_consistency(old, size, tree_root(leaves[:old]), root, consistency_proof(leaves, old))


def changed(proof: tuple[bytes, ...], data: st.DataObject) -> tuple[bytes, ...]:
    """The proof with a bit flipped, or a hash dropped, added, cut or swapped with its neighbour."""
    place = data.draw(st.integers(0, len(proof) - 1))
    bit = data.draw(st.integers(0, 255))
    flipped = (int.from_bytes(proof[place]) ^ 1 << bit).to_bytes(32)
    added = data.draw(st.sampled_from([proof[place], bytes(32), b""]))
    return data.draw(
        st.sampled_from([
            (*proof[:place], flipped, *proof[place + 1 :]),
            (*proof[:place], *proof[place + 1 :]),
            (*proof[:place], added, *proof[place:]),
            (*proof, added),
            (*proof[:place], proof[place][:31], *proof[place + 1 :]),
            (*proof[place + 1 :], *proof[: place + 1]) if len(set(proof)) > 1 and place + 1 < len(proof) else (),
        ])
    )  # fmt: skip


@given(st.data())
def test_inclusion_fails_for_any_other_proof_place_leaf_or_root(data: st.DataObject) -> None:
    """Only the proof that was made, at its own index, in its own tree, is accepted."""
    size = data.draw(st.integers(2, len(LEAVES)))
    index, other = data.draw(st.lists(st.integers(0, size - 1), min_size=2, max_size=2, unique=True))
    leaves = LEAVES[:size]
    leaf, proof, root = leaves[index], inclusion_proof(leaves, index), tree_root(leaves)
    assert holds(verify_inclusion, index, size, leaf, proof, root)
    assert not holds(verify_inclusion, index, size, leaf, changed(proof, data), root)
    assert not holds(verify_inclusion, other, size, leaf, proof, root)
    assert not holds(verify_inclusion, index, size, leaves[other], proof, root)
    assert not holds(verify_inclusion, index, size, leaf, proof, tree_root(leaves[:-1]))
    assert not holds(verify_inclusion, index + size, size, leaf, proof, root)
    assert not holds(verify_inclusion, -1, size, leaf, proof, root)


@given(st.data())
def test_consistency_fails_for_any_other_proof_or_tree(data: st.DataObject) -> None:
    """A changed proof, root or history is refused, in either tree."""
    size = data.draw(st.integers(2, len(LEAVES)))
    old = data.draw(st.integers(1, size - 1))
    leaves = LEAVES[:size]
    old_root, root, proof = tree_root(leaves[:old]), tree_root(leaves), consistency_proof(leaves, old)
    assert holds(verify_consistency, old, size, old_root, root, proof)
    assert not holds(verify_consistency, old, size, old_root, root, changed(proof, data))
    assert not holds(verify_consistency, old, size, root, root, proof)
    assert not holds(verify_consistency, old, size, old_root, old_root, proof)
    rewritten = data.draw(st.integers(0, old - 1))
    history = [*leaves[:rewritten], bytes(32), *leaves[rewritten + 1 :]]
    forged = consistency_proof(history, old)
    assert not holds(verify_consistency, old, size, old_root, tree_root(history), forged)


@pytest.mark.parametrize(("old", "size"), [(0, 0), (0, 5), (6, 5), (-1, 5)])
def test_sizes_that_prove_nothing_are_refused_on_both_sides(old: int, size: int) -> None:
    """An empty tree is a prefix of everything; a larger one of nothing."""
    root = tree_root(LEAVES[:size])
    assert not holds(consistency_proof, LEAVES[:size], old)
    assert not holds(verify_consistency, old, size, root, root, ())


@pytest.mark.parametrize("index", [-1, 5])
def test_leaves_outside_the_tree_have_no_proof(index: int) -> None:
    """Neither before its first nor after its last leaf."""
    assert not holds(inclusion_proof, LEAVES[:5], index)


def test_hashes_of_another_length_are_refused_where_proofs_are_made() -> None:
    """A hash in hex is not a hash."""
    short = [*LEAVES[:4], LEAVES[4].hex().encode()]
    assert not holds(inclusion_proof, short, 1)
    assert not holds(consistency_proof, short, 3)
    with pytest.raises(FormatError, match="64 bytes, expected 32") as caught:
        tree_root(short)
    assert caught.value.code == "bad_range"


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_hashes_of_another_length_are_refused_even_when_the_root_fits_them(length: int) -> None:
    """Otherwise two trees could share a root."""
    stub = bytes(length)
    root = node_hash(LEAVES[0], stub)
    assert not holds(verify_inclusion, 0, 2, LEAVES[0], (stub,), root)
    assert not holds(verify_inclusion, 0, 1, stub, (), stub)
    assert not holds(verify_consistency, 1, 2, LEAVES[0], root, (stub,))


@given(st.integers(0, len(LEAVES)), st.integers(0, len(LEAVES)), st.integers(0, len(LEAVES)))
def test_a_range_extended_in_any_split_has_the_root_of_its_tree(first: int, second: int, size: int) -> None:
    """However the leaves arrive, the same range results, and tree_root agrees."""
    low, high = sorted((min(first, size), min(second, size)))
    grown = Range.empty().extend(LEAVES[:low]).extend(LEAVES[low:high]).extend(iter(LEAVES[high:size]))
    assert grown == Range.empty().extend(LEAVES[:size])
    assert grown.root() == tree_root(LEAVES[:size])


def test_range_nodes_are_the_roots_of_complete_subtrees_largest_first() -> None:
    """Thirteen leaves are a tree of eight, one of four and one of one."""
    nodes = Range.empty().extend(LEAVES[:13]).nodes
    assert nodes == (tree_root(LEAVES[:8]), tree_root(LEAVES[8:12]), LEAVES[12])


def test_the_empty_range_has_the_root_of_the_empty_tree() -> None:
    """SHA-256 of nothing."""
    assert Range.empty().root() == hashlib.sha256().digest()


@pytest.mark.parametrize(
    ("size", "nodes"),
    [(-1, (bytes(32),)), (0, (bytes(32),)), (3, (bytes(32),)), (4, (bytes(32),) * 2), (1, (bytes(31),)), (1, (b"",))],
)
def test_ranges_that_fit_no_tree_are_refused(size: int, nodes: tuple[bytes, ...]) -> None:
    """One node of 32 bytes for each bit of the size."""
    with pytest.raises(FormatError) as caught:
        Range(size, nodes)
    assert caught.value.code == "bad_range"
