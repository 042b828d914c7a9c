"""Archives that are cut or damaged end in one sentence. That bytes are the pinned ones is for their hash to say."""

import io
import tarfile
import zipfile

import pytest

from ridgefill.archive import read_members
from ridgefill.errors import TextError

FILES = {"pkg/a.txt": b"one " * 500, "pkg/b.txt": b"two " * 500}


def zipped(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in FILES.items():
            archive.writestr(name, data)


def tarred(path):
    with tarfile.open(path, "w:gz") as archive:
        for name, data in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def refusal(path):
    """The sentence that reading ends in, or None when it ends well."""
    try:
        dict(read_members(path, FILES.__contains__))
    except TextError as error:
        return str(error)
    return None


@pytest.mark.parametrize("make", [zipped, tarred])
def test_a_cut_archive_is_refused_and_a_damaged_one_raises_nothing_else(make, tmp_path):
    """Cut in its first half: one sentence. With any byte turned over: that sentence or none, no other exception."""
    path = tmp_path / "archive"
    make(path)
    whole = path.read_bytes()
    assert dict(read_members(path, FILES.__contains__)) == FILES
    cut = [whole[:size] for size in range(0, len(whole) // 2, 7)]
    damaged = cut + [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in range(0, len(whole), 7)]
    said = []
    for data in damaged:
        path.write_bytes(data)
        said.append(refusal(path))
    assert all(sentence.startswith("could not unpack archive") for sentence in said if sentence)
    assert None not in said[: len(cut)]
