"""A file or folder is complete or not there, whatever happens while it is written."""

import errno
import hashlib
import os
import shutil
import subprocess
import sys

import pytest

from ridgefill.errors import MapError, ResultsError
from ridgefill.files import replacing, scratch_folder, sha256_file, write_text


def write(path, content, failure=None):
    with replacing(path) as temporary:
        temporary.write_text(content)
        if failure is not None:
            raise failure


def ended_process():
    """The number of a process that is no more."""
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    return int(ended.stdout)


def test_a_finished_write_takes_the_place_of_the_old_file(tmp_path):
    """New content, no temporary file, missing folders made; the hash is that of the bytes."""
    path = tmp_path / "a" / "b.txt"
    write_text(path, "old\n")
    write_text(path, "new ☃\n")
    assert path.read_bytes() == "new ☃\n".encode()
    assert [one.name for one in path.parent.iterdir()] == ["b.txt"]
    assert sha256_file(path) == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("make", [replacing, scratch_folder])
def test_ctrl_c_while_a_folder_is_removed_leaves_nothing_of_it(tmp_path, monkeypatch, make):
    """The removal is begun again, and the interruption goes on."""
    remove, calls = shutil.rmtree, []

    def interrupted(path, **options):
        calls.append(path)
        if len(calls) == 1:
            (path / "one").unlink()
            raise KeyboardInterrupt
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", interrupted)

    def fail():
        with make(tmp_path / "folder") as temporary:
            temporary.mkdir(exist_ok=True)
            for name in ("one", "two"):
                (temporary / name).write_text("half")
            raise ValueError("so that nothing takes its place")

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert len(calls) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_scratch_folder_is_empty_and_gone_afterwards(tmp_path):
    (tmp_path / "a" / f"work.{ended_process()}.tmp").mkdir(parents=True)
    with scratch_folder(tmp_path / "a" / "work") as folder:
        assert folder.parent == tmp_path / "a"
        assert list(folder.parent.iterdir()) == [folder]
        assert list(folder.iterdir()) == []
        (folder / "file").write_text("")
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize("failure", [ValueError("x"), MapError("x"), KeyboardInterrupt()])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    """The error passes through as it is; the old bytes stay; the temporary file is gone."""
    path = tmp_path / "b.txt"
    write_text(path, "old")
    with pytest.raises(type(failure)):
        write(path, "half", failure)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_one_sentence_and_leaves_nothing_behind(tmp_path):
    """ENOSPC while writing: a ResultsError that names the file and the remedy."""
    path = tmp_path / "b.txt"
    with pytest.raises(ResultsError, match=r"b\.txt could not be written \(No space left.*free space"):
        write(path, "half", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_up_at_the_end_is_caught_too(tmp_path, monkeypatch):
    """Delayed allocation reports ENOSPC only when the file is synced: before it takes the old one's place."""
    path = tmp_path / "b.txt"
    write_text(path, "old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ResultsError, match="No space left"):
        write(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_replaced_as_one(tmp_path):
    """A folder appears with all its files, each of them synced, or not at all."""
    path = tmp_path / "maps"

    def fail():
        with replacing(path) as temporary:
            temporary.mkdir()
            (temporary / "one").write_text("1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []
    with replacing(path) as temporary:
        temporary.mkdir()
        (temporary / "one").write_text("1")
        assert not path.exists()
    assert [one.name for one in path.iterdir()] == ["one"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_in_the_way_is_not_overwritten(tmp_path):
    """Writing a folder over one with files in it is refused and leaves the old one."""
    (tmp_path / "maps").mkdir()
    (tmp_path / "maps" / "old").write_text("old")
    with (
        pytest.raises(ResultsError, match="maps could not be written"),
        replacing(tmp_path / "maps") as temporary,
    ):
        temporary.mkdir()
    assert [one.name for one in tmp_path.iterdir()] == ["maps"]
    assert (tmp_path / "maps" / "old").read_text() == "old"


def test_a_file_in_place_of_a_folder_is_one_sentence(tmp_path):
    """The parent cannot be made: a ResultsError, not a traceback."""
    (tmp_path / "results").write_text("")
    with pytest.raises(ResultsError, match=r"results/a\.txt could not be written"):
        write_text(tmp_path / "results" / "a.txt", "x")


def test_what_a_killed_process_left_is_removed_by_the_next_write(tmp_path):
    """Files and folders of processes that are gone, or that had this one's number; those of others at work stay."""
    gone, alive = ended_process(), os.getppid()
    (tmp_path / f"maps.{gone}.tmp").mkdir()
    (tmp_path / f"maps.{gone}.tmp" / "one").write_text("half")
    (tmp_path / f"maps.{os.getpid()}.tmp").mkdir()
    for kept in (f"maps.{alive}.tmp", f"maps.other.{gone}.tmp.txt", f"others.{gone}.tmp", "maps.mine.tmp"):
        (tmp_path / kept).write_text("theirs")
    with replacing(tmp_path / "maps") as temporary:
        temporary.mkdir()
    expected = ["maps", f"maps.{alive}.tmp", f"maps.other.{gone}.tmp.txt", "maps.mine.tmp", f"others.{gone}.tmp"]
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(expected)
