"""Who vouches for a ledger: signed checkpoints, keys and their succession, co-authors."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.chain import read_chain
from ledger.checkpoints import add_signatures, note_path, range_path
from ledger.custody import Custody, Trust, check_custody
from ledger.signing.notes import COSIGNATURE
from ledger.verify import verify

MAIN = "data/ledger/main"
NAMED = "a key the ledger names"


def look(root: Path, *keys: str) -> Custody:
    """What vouches for main, with these keys brought along."""
    return check_custody(read_chain(root / MAIN), Trust(keys))


def said(custody: Custody, level: str) -> list[tuple[str, int | None]]:
    """Code and entry of the findings of one level."""
    return [(item.code, item.seq) for item in custody.findings if item.level == level]


def state(root: Path, *keys: str) -> str:
    """What the report says of the end of main."""
    return verify(root, trust=Trust(keys)).branches[0].state


def forge_key(forging, root: Path, seq: int, name: str, **fields) -> None:
    """Record a test key as a signer."""
    body = {
        "public_key": forging.key_of_tests(name).verifier().text(),
        **{"role": "signer", "replaces": None, "lost": False, "reason": ""},
        **fields,
    }
    forging.forge(root, seq, body, kind="key")


def signers(custody: Custody) -> dict[int, list[str]]:
    """Names of those who signed, by checkpoint."""
    return {item.size: [name.partition("+")[0] for name in item.signers] for item in custody.vouched}


def test_the_full_ledger_is_vouched_for(full: Path) -> None:
    """Four checkpoints; the last but one by both keys, the last by the new one and a co-author; nothing is wrong."""
    custody = look(full)
    assert signers(custody) == {4: ["alice"], 8: ["alice"], 15: ["alice", "alice-2"], 16: ["alice-2", "bob"]}
    assert said(custody, "error") == said(custody, "warning") == []


def test_the_state_says_how_far_whose_key_reaches(full: Path, forging) -> None:
    """A key that only the ledger names, and the verifier's own, which the other must not hide."""
    alice, successor, bob, carol = (forging.key_of_tests(name) for name in ("alice", "alice-2", "bob", "carol"))
    names = {key.name: f"{key.name}+{key.verifier().key_id.hex()}" for key in (alice, successor)}
    names["bob"] = f"bob+{bob.verifier(COSIGNATURE).key_id.hex()}"
    last = f"pinned up to entry 15 of 16 by {names['alice-2']}, {names['bob']}"
    assert state(full) == f"prefix intact, {last} ({NAMED})"
    assert state(full, carol.verifier().text()) == f"prefix intact, {last} ({NAMED})"
    assert state(full, successor.verifier().text()) == f"prefix intact, {last} (your key among them)"
    assert state(full, bob.verifier(COSIGNATURE).text()) == f"prefix intact, {last} (your key among them)"
    both = f"pinned up to entry 14 of 16 by {names['alice']}, {names['alice-2']} (your key among them)"
    assert state(full, alice.verifier().text()) == f"prefix intact, {both}, {last} ({NAMED})"


def test_a_single_signer_that_is_the_verifiers_own_is_said_to_be(full: Path, forging) -> None:
    """Nobody else signed."""
    for size in (15, 16):
        note_path(full / MAIN, size).unlink()
    key = forging.key_of_tests("alice").verifier()
    assert state(full, key.text()).endswith(f"pinned up to entry 7 of 16 by alice+{key.key_id.hex()} (your key)")


def test_a_signature_of_an_unknown_key_is_ignored(full: Path, forging) -> None:
    """It neither helps nor harms; brought along, the same key counts."""
    carol = forging.key_of_tests("carol")
    forging.signed(full, 16, carol)
    assert verify(full).ok
    assert signers(look(full))[16] == ["alice-2", "bob"]
    custody = look(full, carol.verifier().text())
    assert signers(custody)[16] == ["alice-2", "bob", "carol"]
    assert [item.size for item in custody.vouched if item.outside] == [16]


def test_a_checkpoint_that_only_strangers_signed_pins_nothing(full: Path, forging) -> None:
    """It is a note, and the end stays open."""
    for size in (4, 8, 15, 16):
        note_path(full / MAIN, size).unlink()
    forging.signed(full, 17, forging.key_of_tests("carol"))
    custody = look(full)
    assert said(custody, "error") == []
    assert ("unsigned_checkpoint", None) in said(custody, "note")
    assert state(full) == "prefix intact, end not pinned"


def test_a_known_key_that_fails_is_an_error_even_if_only_the_verifier_knows_it(full: Path, forging) -> None:
    """Its signature of another checkpoint under this one."""
    carol = forging.key_of_tests("carol")
    wrong = carol.sign(forging.point_at(full, 15).text())
    add_signatures(full / MAIN, forging.point_at(full, 16), [wrong])
    assert said(look(full), "error") == []
    assert said(look(full, carol.verifier().text()), "error") == [("bad_signature", None)]


def test_a_cosignature_covers_its_time(full: Path, forging) -> None:
    """Another time under the same signature does not verify."""
    bob = forging.key_of_tests("bob")
    for size in (4, 8, 15):
        note_path(full / MAIN, size).unlink()
    path = note_path(full / MAIN, 16)
    path.unlink()
    forging.cosigned_at(full, 16, bob, 7)
    assert signers(look(full)) == {16: ["bob"]}
    path.unlink()
    signature = bob.cosign(forging.point_at(full, 16).text(), 7)
    later = type(signature)(signature.name, signature.key_id, (8).to_bytes(8) + signature.payload[8:])
    add_signatures(full / MAIN, forging.point_at(full, 16), [later])
    assert said(look(full), "error") == [("bad_signature", None)]


def test_a_lost_key_is_a_break_in_signing_and_a_warning(full: Path, forging) -> None:
    """Anybody could claim that; the report says so and goes on."""
    old = forging.key_of_tests("alice-2").verifier().key_id.hex()
    forge_key(forging, full, 17, "carol", replaces=old, lost=True)
    forging.signed(full, 18, forging.key_of_tests("carol"))
    custody = look(full)
    assert said(custody, "error") == []
    assert said(custody, "warning") == [("signing_break", 17)]
    assert signers(custody)[18] == ["carol"]


def test_a_lost_key_vouches_for_nothing_that_came_after_its_loss(full: Path, forging) -> None:
    """Whoever found it may sign as they like: the signature is named and does not count."""
    old = forging.key_of_tests("alice-2")
    forge_key(forging, full, 17, "carol", replaces=old.verifier().key_id.hex(), lost=True)
    forging.signed(full, 18, old)
    custody = look(full)
    assert ("lost_key_used", 17) in said(custody, "warning")
    assert signers(custody)[18] == []
    assert signers(custody)[16] != []


def test_a_rotation_needs_a_checkpoint_after_it_that_both_keys_signed(full: Path, forging) -> None:
    """Before it, by one of them, or by both on different checkpoints is not enough: a warning."""
    old, new = forging.key_of_tests("alice-2"), forging.key_of_tests("carol")
    forging.signed(full, 17, old, new)
    forge_key(forging, full, 17, "carol", replaces=old.verifier().key_id.hex())
    assert said(look(full), "warning") == [("rotation_unproven", 17)]
    forging.signed(full, 18, new)
    forging.forge(full, 18, {"registration": forging_pointer(full), "reason": "no"}, kind="void")
    forging.signed(full, 19, old)
    assert said(look(full), "warning") == [("rotation_unproven", 17)]
    forging.signed(full, 19, new)
    custody = look(full)
    assert said(custody, "warning") == said(custody, "error") == []


def forging_pointer(root: Path) -> dict:
    """How a void names the registration that was never run."""
    return {"seq": 16, "leaf": read_chain(root / MAIN).entries[16].leaf}


def test_the_rotation_of_the_full_ledger_rests_on_its_doubly_signed_checkpoint(full: Path) -> None:
    """Without that checkpoint the succession is not shown any more."""
    note_path(full / MAIN, 15).unlink()
    assert said(look(full), "warning") == [("rotation_unproven", 14)]


def test_withheld_key_entries_name_no_key(full: Path, forging) -> None:
    """Their signatures are then of unknown keys, which is no error; the verifier can still bring the key."""
    for path in (forging.body(full, 1), forging.salt(full, 1)):
        path.unlink()
    custody = look(full)
    assert said(custody, "error") == []
    assert ("key_unchecked", 14) in said(custody, "note")
    assert signers(custody)[8] == []
    assert signers(look(full, forging.key_of_tests("alice").verifier().text()))[8] == ["alice"]


def test_no_byte_of_a_signed_checkpoint_can_change_unnoticed(full: Path, forging) -> None:
    """Verification fails, or the signature counts for nobody; it never counts for other bytes."""
    path, key = note_path(full / MAIN, 8), forging.key_of_tests("alice").verifier().text()
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        custody = look(full, key)
        assert said(custody, "error") or not signers(custody)[8], place


def test_no_byte_of_a_frontier_can_change_unnoticed(full: Path) -> None:
    """Each change is an error."""
    path = range_path(full / MAIN, 15)
    data = path.read_bytes()
    for place in range(0, len(data), 3):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        assert said(look(full), "error"), place


def test_a_temporary_file_of_a_crash_is_harmless(full: Path) -> None:
    """Left in the folder of checkpoints."""
    (full / MAIN / "checkpoints/.00000016.note.0123456789abcdef.tmp").write_bytes(b"full/ma")
    assert said(look(full), "error") == []


@pytest.mark.parametrize("size", [4, 8, 15, 16])
def test_the_end_can_only_be_cut_where_no_checkpoint_reaches(full: Path, forging, size: int) -> None:
    """Down to the checkpoint nobody notices; one entry further everybody does."""
    for larger in (4, 8, 15, 16):
        if larger > size:
            note_path(full / MAIN, larger).unlink()
    forging.forget(full, *range(size, 17))
    assert said(look(full), "error") == []
    forging.forget(full, size - 1)
    assert ("truncated", None) in said(look(full), "error")
