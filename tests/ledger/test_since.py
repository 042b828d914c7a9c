"""``verify --since SIZE``: only what is new is read, and everything about that is checked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.checkpoints import note_path, range_path
from ledger.cli import main
from ledger.custody import Trust
from ledger.errors import FormatError, NoLedger, UsageError
from ledger.since import Fresh, verify_since
from ledger.verify import verify

MAIN = "data/ledger/main"
NEW = range(8, 17)


def since(root: Path, size: int = 8, *keys: str, branch: str = "main") -> Fresh:
    """Go on from a checkpoint of main."""
    return verify_since(root, branch, size, Trust(keys))


def refused(root: Path, size: int = 8, *keys: str) -> bool:
    """Whether anything wrong was found."""
    try:
        return not since(root, size, *keys).ok
    except FormatError:
        return True


def changed_everywhere(path: Path, step: int = 1):
    """Every ``step``-th byte of a file changed in turn; the file is whole again afterwards."""
    data = path.read_bytes()
    for place in range(0, len(data), step):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        yield place
    path.write_bytes(data)


@pytest.mark.parametrize("size", [4, 8, 15, 16])
def test_the_new_root_is_that_of_a_full_verification(full: Path, size: int) -> None:
    """From every checkpoint on, the frontier grows to the same tree."""
    fresh = since(full, size)
    assert fresh.ok
    assert (fresh.size, fresh.checkpoint) == (17, verify(full).branches[0].checkpoint)


def test_no_old_entry_is_read(full: Path, forging, capsys) -> None:
    """All of them are garbage: with --since the new entries verify, without it nothing does."""
    for seq in range(8):
        for path in (forging.entry, forging.body, forging.salt):
            path(full, seq).write_bytes(b"garbage")
    options = ["verify", "--root", str(full), "--branch", "main"]
    assert main([*options, "--since", "8"]) == 0
    out = capsys.readouterr().out
    assert "main: checkpoint 8 signed by nobody whose key is known; 9 entries since then" in out
    assert "not checked: entries before the checkpoint" in out
    assert main(options) == 4


def test_who_signed_is_said_when_the_key_is_brought_along(full: Path, forging, capsys) -> None:
    """A key the checkpoint is not signed by is refused, with exit code 4."""
    options = ["verify", "--root", str(full), "--branch", "main", "--since", "8", "--json", "--key"]
    key = forging.key_of_tests("alice").verifier()
    assert main([*options, key.text()]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["signers"], found["findings"], found["ok"]) == ([f"alice+{key.key_id.hex()}"], [], True)
    assert main([*options, forging.key_of_tests("carol").verifier().text()]) == 4
    assert "signed by none of the keys you named" in capsys.readouterr().err
    assert main([*options, "alice"]) == 2
    assert "expected a verifier key NAME+ID+KEY" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["entry", "body", "salt"])
def test_no_byte_of_a_new_entry_can_change_unnoticed(full: Path, forging, what: str) -> None:
    """Header, body and salt of the first and the last new entry byte by byte."""
    for seq in (NEW[0], NEW[-1]):
        for place in changed_everywhere(getattr(forging, what)(full, seq), step=2):
            assert refused(full), (seq, place)
    assert not refused(full)


@pytest.mark.parametrize("seq", NEW)
def test_no_new_entry_can_be_taken_away_from_the_middle_or_exchanged(full: Path, forging, seq: int) -> None:
    """Removed, forged again, or put in the place of its neighbour."""
    path = forging.entry(full, seq)
    data = path.read_bytes()
    if seq < NEW[-1]:
        path.unlink()
        assert "missing_entry" in {finding.code for finding in since(full).findings}
        path.write_bytes(data)
        forging.reforge(full, seq, {}, time="2026-11-02T00:00:00Z")
        assert "wrong_prev" in {finding.code for finding in since(full).findings}
    else:
        forging.swap(path, forging.entry(full, seq - 1))
        assert "wrong_seq" in {finding.code for finding in since(full).findings}


def test_the_first_new_entry_must_follow_the_checkpoint(full: Path, forging) -> None:
    """A whole new history behind the checkpoint is refused where it begins."""
    forging.forget(full, *range(9, 17))
    forging.replace(forging.entry(full, 7), b"Z", b"Y")
    forging.reforge(full, 8, {})
    assert [(item.code, item.seq) for item in since(full).findings if item.level == "error"] == [("wrong_prev", 8)]


def test_another_origin_behind_the_checkpoint_is_refused(full: Path, forging) -> None:
    """The entries must be of the ledger that the checkpoint is of."""
    forging.forget(full, *range(9, 17))
    forging.reforge(full, 8, {"origin": "else/main"}, origin="else/main")
    assert "wrong_origin" in {finding.code for finding in since(full).findings}


def test_no_byte_of_the_frontier_can_change_unnoticed(full: Path) -> None:
    """It must lead to the root of the checkpoint."""
    for place in changed_everywhere(range_path(full / MAIN, 15)):
        assert refused(full, 15), place
    assert not refused(full, 15)


def test_no_byte_of_the_checkpoint_can_change_unnoticed_by_who_knows_its_key(full: Path, forging) -> None:
    """Text, names and signatures alike."""
    key = forging.key_of_tests("alice").verifier().text()
    for place in changed_everywhere(note_path(full / MAIN, 8)):
        assert refused(full, 8, key), place
    assert not refused(full, 8, key)


def test_a_frontier_of_another_checkpoint_is_refused(full: Path) -> None:
    """Sizes and roots belong together."""
    range_path(full / MAIN, 8).write_bytes(range_path(full / MAIN, 4).read_bytes())
    with pytest.raises(FormatError, match="does not lead to its root") as caught:
        since(full)
    assert caught.value.code == "bad_range"


def test_a_checkpoint_that_is_not_there_is_a_wrong_command_line(full: Path, capsys) -> None:
    """The sentence lists those that are; so for one without a frontier, and for a branch nobody opened."""
    with pytest.raises(UsageError, match=r"no checkpoint 7 of branch main .*there: 4, 8, 15, 16"):
        since(full, 7)
    range_path(full / MAIN, 8).unlink()
    with pytest.raises(UsageError, match="no checkpoint 8 of branch main"):
        since(full)
    with pytest.raises(UsageError, match=r"no checkpoint 1 of branch side .*there: none"):
        since(full, 1, branch="side")
    with pytest.raises(NoLedger, match="no ledger branch 'twig'"):
        since(full, branch="twig")
    assert main(["verify", "--root", str(full), "--since", "-1"]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_an_end_cut_off_below_the_checkpoint_is_refused(full: Path, forging) -> None:
    """Nothing is read of what came before, and yet it has to be there."""
    forging.forget(full, *range(7, 17))
    assert [(item.code, item.seq) for item in since(full).findings if item.level == "error"] == [("truncated", 7)]


def test_nothing_new_is_fine(full: Path, forging) -> None:
    """The checkpoint is over everything there is."""
    forging.forget(full, 16)
    fresh = since(full, 16)
    assert fresh.ok
    assert (fresh.size, fresh.checkpoint) == (16, verify(full).branches[0].checkpoint)
