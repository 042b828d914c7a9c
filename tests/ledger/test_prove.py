"""`ledger prove`: proofs that stand on their own."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from ledger.branches import branch_path
from ledger.canonical import canonical
from ledger.checkpoint import checkpoint_of
from ledger.checkpoints import note_path
from ledger.cli import main
from ledger.errors import BrokenLedger, FormatError
from ledger.publishing.proofs import Consistency, Inclusion, parse_proof
from ledger.publishing.standing import prove_consistency, prove_inclusion, sound_chain
from ledger.signing.keys import load_key
from ledger.signing.notes import Note


@pytest.fixture
def root(shared_ledger: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a key; commands are typed in its folder."""
    monkeypatch.chdir(shared_ledger)
    monkeypatch.setenv("LEDGER_KEYS", str(tmp_path_factory.mktemp("keys")))
    assert main(["key", "new", "ours"]) == 0
    return shared_ledger


def test_every_entry_is_proved_under_the_ledger_as_it_stands(root: Path) -> None:
    """Without a stored checkpoint the proof stands on the ledger now, says so, and reads back as it was."""
    chain = sound_chain(root, "main")
    for seq, entry in enumerate(chain.entries):
        proof, ground = prove_inclusion(chain, seq)
        assert (ground.stored, ground.point.size) == (False, 6)
        assert proof.leaf == entry.leaf
        assert parse_proof(proof.encode()) == proof
        assert proof.check() == checkpoint_of("test/main", chain.leaves)


def test_every_older_size_is_proved_to_be_a_prefix(root: Path) -> None:
    """From each size to the whole ledger, itself included."""
    chain = sound_chain(root, "main")
    for size in range(1, 7):
        proof, _ = prove_consistency(chain, size)
        old, new = proof.check()
        assert parse_proof(proof.encode()) == proof
        assert (old, new) == (checkpoint_of("test/main", chain.leaves[:size]), checkpoint_of("test/main", chain.leaves))


def test_the_newest_checkpoint_that_holds_the_entry_is_used(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A signed checkpoint of 6 entries serves entry 1; one that came after it is proved as the ledger stands."""
    assert main(["checkpoint", "--key", "ours", "--branch", "main"]) == 0
    note = note_path(branch_path(root, "main"), 6).read_text()
    assert main(["init", "--branch", "side"]) == 0
    claim = root / "workflow/claims/other.yaml"
    claim.write_text(claim.read_text().replace("experiment: other", "experiment: third"))
    assert main(["register", str(claim), "--branch", "main"]) == 0
    capsys.readouterr()
    assert main(["prove", "1", "--branch", "main"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["checkpoint"] == note
    assert "the stored checkpoint of test/main at 6 entries" in err
    assert main(["prove", "6", "--branch", "main"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["checkpoint"].count("\n") == 3
    assert "as it stands now at 7 entries" in err


def test_the_proof_file_needs_nothing_beside_it(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The header in the file, hashed after a zero byte as RFC 6962 says, is the leaf; the bytes are canonical."""
    assert main(["prove", "2", "--branch", "main", "--out", "p.json"]) == 0
    assert "import-check p.json" in capsys.readouterr().out
    data = Path("p.json").read_bytes()
    value = json.loads(data)
    assert canonical(value) == data
    assert hashlib.sha256(b"\x00" + value["header"].encode()).hexdigest() == value["leaf"]
    assert value["header"].encode() == (root / "data/ledger/main/entries/00000002.json").read_bytes()


def test_a_file_with_other_bytes_is_not_overwritten(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same proof may be written again; another file of that name stays."""
    assert main(["prove", "2", "--branch", "main", "--out", "p.json"]) == 0
    assert main(["prove", "2", "--branch", "main", "--out", "p.json"]) == 0
    Path("p.json").write_text("mine")
    assert main(["prove", "2", "--branch", "main", "--out", "p.json"]) == 2
    assert Path("p.json").read_text() == "mine"
    assert "there already" in capsys.readouterr().err
    assert main(["prove", "2", "--branch", "main", "--out", "absent/p.json"]) == 13
    assert [path.name for path in root.glob(".*.tmp")] == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["6"], "expected 0 to 5"),
        (["-1"], "expected 0 to 5"),
        (["--since", "0"], "has 6 entries"),
        (["--since", "7"], "has 6 entries"),
        ([], "--since SIZE"),
        (["1", "--since", "2"], "--since SIZE"),
    ],
)
def test_a_number_that_cannot_be_meant_is_refused(
    root: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Entries and sizes the ledger does not have, and both or neither of them."""
    assert main(["prove", *arguments, "--branch", "main"]) == 2
    assert says in capsys.readouterr().err


def test_a_stored_checkpoint_of_another_ledger_proves_nothing(root: Path) -> None:
    """A note that cannot be read, or is over another root, stops the proof instead of going into it."""
    chain, path = sound_chain(root, "main"), note_path(branch_path(root, "main"), 6)
    assert main(["checkpoint", "--key", "ours", "--branch", "main"]) == 0
    path.write_text(path.read_text().replace("test/main\n6", "test/main\n5"))
    with pytest.raises(BrokenLedger, match="cannot be read"):
        prove_inclusion(chain, 1)
    text = checkpoint_of("test/main", [*chain.leaves[:5], "0" * 64]).text()
    path.write_bytes(Note(text, (load_key("ours", root).sign(text),)).encode())
    with pytest.raises(BrokenLedger, match="not one of this ledger"):
        prove_inclusion(chain, 1)


def test_what_follows_from_the_rest_cannot_say_otherwise(root: Path) -> None:
    """Index, leaf, size and origin are derived again; a checkpoint of another origin or a lone hash is refused."""
    chain = sound_chain(root, "main")
    proof, _ = prove_inclusion(chain, 1)
    for key, value in (("index", 2), ("leaf", "0" * 64), ("size", 5), ("origin", "x")):
        with pytest.raises(FormatError, match="numbers or leaf"):
            parse_proof(canonical({**proof.to_json(), key: value}))
    with pytest.raises(FormatError, match="a proof about"):
        Inclusion(proof.header, proof.hashes, checkpoint_of("x", chain.leaves).text()).check()
    with pytest.raises(FormatError):
        Inclusion(proof.header, proof.hashes[:-1], proof.checkpoint).check()
    grown, _ = prove_consistency(chain, 3)
    with pytest.raises(FormatError):
        Consistency(checkpoint_of("test/main", chain.leaves[:2]).text(), grown.hashes, grown.checkpoint).check()
    with pytest.raises(FormatError):
        parse_proof(b"[]")
