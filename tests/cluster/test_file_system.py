"""What a shared file system may do to the ledger: replies that are lost, no hard links, no locks."""

from __future__ import annotations

import errno
import os

import pytest

from ledger.errors import WriteFailed
from ledger.lease import lease
from ledger.store import Ledger

REGISTER = {
    "experiment": "x",
    "claim": {"predictions": [1]},
    "claim_file": {"path": "c.yaml", "sha256": "0" * 64},
    "configs": [],
}


@pytest.fixture
def branch(tmp_path):
    """A new branch."""
    return Ledger.init(tmp_path / "book", "test/1", "a test")


def test_an_entry_whose_link_was_made_but_reported_as_failed_is_appended_once(branch, tmp_path, monkeypatch):
    """NFS: the server made the link, its reply was lost, and asked again it says that the name is taken."""
    link = os.link

    def reply_lost(source, target):
        monkeypatch.setattr(os, "link", link)
        link(source, target)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    monkeypatch.setattr(os, "link", reply_lost)
    entry = branch.append("register", REGISTER | {"experiment": "once"})
    assert entry.seq == 1
    assert len(branch.entries()) == 2
    assert not list(tmp_path.rglob("*.tmp"))


def test_a_number_that_another_process_took_is_left_to_it(branch, tmp_path, monkeypatch):
    """The same error when the name is another's: the entry goes to the next number, and both are whole."""
    link, second = os.link, Ledger.open(branch.path)

    def overtaken(source, target):
        monkeypatch.setattr(os, "link", link)
        second.append("register", REGISTER | {"experiment": "theirs"})
        link(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert branch.append("register", REGISTER | {"experiment": "ours"}).seq == 2
    assert [entry.body["experiment"] for entry in branch.entries()[1:]] == ["theirs", "ours"]


def test_no_hard_links_is_one_sentence_and_no_entry(branch, tmp_path, monkeypatch):
    """FAT, and some network file systems: the append is refused, and the ledger is as it was."""

    def refused(source, target):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    with pytest.raises(WriteFailed, match=r"cannot append to .*Operation not permitted"):
        branch.append("register", REGISTER | {"experiment": "nowhere"})
    assert len(branch.entries()) == 1


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS])
def test_no_locks_is_one_sentence_and_no_lease(tmp_path, monkeypatch, number):
    """Lustre mounted without flock, NFS without its lock service: nothing starts rather than twice."""
    (tmp_path / "data/ledger").mkdir(parents=True)

    def refused(descriptor, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("ledger.lease.fcntl.flock", refused)
    with pytest.raises(WriteFailed, match="cannot take the lease"), lease(tmp_path, "tiny", "capture", ""):
        pass
