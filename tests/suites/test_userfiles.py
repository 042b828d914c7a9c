"""Texts that a user hands over: read strictly, with their hashes."""

import hashlib

import pytest

from ridgefill.errors import TextError
from ridgefill.suites.userfiles import read_json, read_text


def test_a_file_is_its_text_and_its_hash(tmp_path):
    """The hash is of the bytes, and can be asked for."""
    path = tmp_path / "essay.txt"
    path.write_bytes("Één.\r\nTwo.".encode())
    found = read_text(path)
    assert found == ("Één.\r\nTwo.", hashlib.sha256(path.read_bytes()).hexdigest())
    assert read_text(path, found.sha256) == found
    with pytest.raises(TextError, match=f"has SHA-256 {found.sha256}, expected ffff"):
        read_text(path, "f" * 64)


def test_a_folder_is_its_texts_in_name_order_and_one_hash_over_all(tmp_path):
    """Other files do not count; a changed text or name changes the hash."""
    (tmp_path / "deep").mkdir()
    for name, text in (("b.txt", "second"), ("a.md", "first"), ("deep/c.txt", "third"), ("d.bin", "no")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    before = read_text(tmp_path)
    assert before.text == "first\nsecond\nthird"
    (tmp_path / "d.bin").unlink()
    assert read_text(tmp_path) == before
    (tmp_path / "b.txt").rename(tmp_path / "bb.txt")
    renamed = read_text(tmp_path)
    assert renamed.text == before.text
    assert renamed.sha256 != before.sha256
    (tmp_path / "bb.txt").write_text("other", encoding="utf-8")
    assert read_text(tmp_path).sha256 != renamed.sha256


@pytest.mark.parametrize(
    ("data", "complaint"), [(b"a\xff", r"is not UTF-8 text \(byte 1\)"), (b" \n", "is empty"), (None, "no file at")]
)
def test_what_is_no_text_is_refused(data, complaint, tmp_path):
    """Binary, empty and missing files."""
    path = tmp_path / "x.txt"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(TextError, match=complaint):
        read_text(path)


def test_a_folder_without_texts_is_refused(tmp_path):
    """It says which endings count."""
    with pytest.raises(TextError, match=r"holds no file ending in \.txt or \.md"):
        read_text(tmp_path)


def test_json_is_read_with_the_hash_of_its_file(tmp_path):
    """Deep nesting and half a file end in one sentence."""
    path = tmp_path / "x.json"
    path.write_text("[1]", encoding="utf-8")
    assert read_json(path) == ([1], hashlib.sha256(b"[1]").hexdigest())
    for text in ("[1", "[" * 100_000):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(TextError, match="is not valid JSON"):
            read_json(path)
