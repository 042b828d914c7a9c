"""Map files: the published layout, bit for bit, and every kind of damage refused by name."""

import json
import shutil
import subprocess

import pytest
import torch
from safetensors import safe_open

from ridgefill.errors import MapError, ResultsError
from ridgefill.files import sha256_file
from ridgefill.maps import RidgeMaps, load_maps, save_maps

SPLIT, LAYERS = 3, 6
FIT = {"lam": 0.03, "rows": 1234, "model": "tiny"}


@pytest.fixture
def architecture(adapter):
    return {**adapter.fingerprint, "tokenizer_sha256": "ab" * 32}


@pytest.fixture
def folder(tmp_path, random_maps, architecture):
    """A folder of saved maps."""
    save_maps(tmp_path / "maps", random_maps(SPLIT), architecture=architecture, fit=FIT)
    return tmp_path / "maps"


def rewrite(folder, change):
    """Edit the manifest consistently: its own checksum is made to match."""
    manifest = json.loads((folder / "ridgefill.json").read_text())
    change(manifest)
    (folder / "ridgefill.json").write_text(json.dumps(manifest))
    refresh(folder)


def refresh(folder):
    names = sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")
    (folder / "SHA256SUMS").write_text("".join(f"{sha256_file(folder / name)}  {name}\n" for name in names))


def test_maps_survive_their_files_bit_for_bit(folder, random_maps, architecture):
    """What is loaded is the bf16 rounding of what was saved, and saving it again gives the same bytes."""
    maps, loaded = random_maps(SPLIT), load_maps(folder, architecture=architecture)
    assert loaded.split == SPLIT
    assert sorted(loaded.weights) == sorted(loaded.biases) == [3, 4, 5]
    for layer in loaded.weights:
        assert torch.equal(loaded.weights[layer], maps.weights[layer].bfloat16())
        assert torch.equal(loaded.biases[layer], maps.biases[layer].bfloat16())
    again = folder.with_name("again")
    save_maps(again, loaded, architecture=architecture, fit=FIT)
    assert {path.name: path.read_bytes() for path in again.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }


def test_the_layout_is_the_published_one(folder):
    """One safetensors file per late layer with weight ``[d_out, d_in]`` and bias ``[d_out]`` in bf16, a
    manifest, sums.
    """
    assert sorted(path.name for path in folder.iterdir()) == [
        "SHA256SUMS", "proj.L3.safetensors", "proj.L4.safetensors", "proj.L5.safetensors", "ridgefill.json",
    ]  # fmt: skip
    for layer in range(SPLIT, LAYERS):
        with safe_open(folder / f"proj.L{layer}.safetensors", framework="pt") as stored:
            assert sorted(stored.keys()) == [f"proj.{layer}.bias", f"proj.{layer}.weight"]
            weight, bias = (stored.get_tensor(f"proj.{layer}.{name}") for name in ("weight", "bias"))
        assert (weight.shape, weight.dtype) == ((32, 32), torch.bfloat16)
        assert (bias.shape, bias.dtype) == ((32,), torch.bfloat16)
    manifest = json.loads((folder / "ridgefill.json").read_text())
    assert manifest["format"] == 1
    assert manifest["credit"]
    assert manifest["fit"] == {"split": SPLIT, "encoding": "bf16", **FIT}
    assert manifest["architecture"]["layer_types"] == ["attention"] * LAYERS
    assert set(manifest["files"]) == {f"proj.L{layer}.safetensors" for layer in range(SPLIT, LAYERS)}


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs coreutils' sha256sum")
def test_sha256sum_itself_verifies_the_folder(folder):
    """``sha256sum -c SHA256SUMS`` passes on every file, and fails after a byte changes."""
    check = ["sha256sum", "--strict", "-c", "SHA256SUMS"]
    done = subprocess.run(check, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.count(": OK") == len(list(folder.iterdir())) - 1
    flip(folder / "proj.L4.safetensors")
    assert subprocess.run(check, cwd=folder, capture_output=True, check=False).returncode == 1


def test_saving_returns_the_hashes_and_leaves_nothing_on_failure(tmp_path, random_maps, architecture, monkeypatch):
    """The folder appears as one: when a write fails there is neither a folder nor a temporary one."""
    sums = save_maps(tmp_path / "maps", random_maps(SPLIT), architecture=architecture, fit=FIT)
    assert sums == {name: sha256_file(tmp_path / "maps" / name) for name in sums}
    with pytest.raises(ResultsError):
        save_maps(tmp_path / "maps", random_maps(SPLIT), architecture=architecture, fit=FIT)
    monkeypatch.setattr("pathlib.Path.write_bytes", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.raises(ResultsError, match="No space left"):
        save_maps(tmp_path / "other", random_maps(SPLIT), architecture=architecture, fit=FIT)
    assert [path.name for path in tmp_path.iterdir()] == ["maps"]


def flip(path, place=-3):
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(bytes(data))


FILES = ["SHA256SUMS", "ridgefill.json", "proj.L3.safetensors", "proj.L5.safetensors"]


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_refused_by_name(folder, architecture, name):
    """Each file of the folder is needed."""
    (folder / name).unlink()
    with pytest.raises(MapError, match=name.replace(".", r"\.")):
        load_maps(folder, architecture=architecture)


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_byte_anywhere_is_refused_by_name(folder, architecture, name):
    """First, middle and last bytes of each file: header, tensors, manifest, checksums."""
    size = (folder / name).stat().st_size
    for place in (0, 9, size // 2, size - 2):
        flip(folder / name, place)
        with pytest.raises(MapError, match=name.replace(".", r"\.")):
            load_maps(folder, architecture=architecture)
        flip(folder / name, place)
    load_maps(folder, architecture=architecture)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"one line without the two blanks\n"])
def test_checksums_that_are_not_checksums_are_refused(folder, content):
    """An empty, binary or foreign SHA256SUMS is a MapError, not a traceback."""
    (folder / "SHA256SUMS").write_bytes(content)
    with pytest.raises(MapError, match="SHA256SUMS"):
        load_maps(folder)


def test_an_extra_map_file_is_refused_by_name(folder, architecture):
    """A map file that the manifest does not list."""
    shutil.copy(folder / "proj.L5.safetensors", folder / "proj.L9.safetensors")
    with pytest.raises(MapError, match=r"proj\.L9\.safetensors"):
        load_maps(folder, architecture=architecture)


def test_other_files_beside_the_maps_do_not_matter(folder, architecture):
    """Hubs add and rewrite READMEs."""
    (folder / "README.md").write_text("hello")
    assert load_maps(folder, architecture=architecture).split == SPLIT


@pytest.mark.parametrize("gone", [3, 5])
def test_a_missing_layer_is_refused_by_number(tmp_path, random_maps, architecture, gone):
    """A folder that is consistent in itself but lacks a late layer."""
    maps = random_maps(SPLIT)
    kept = {layer: weight for layer, weight in maps.weights.items() if layer != gone}
    save_maps(tmp_path / "m", RidgeMaps(SPLIT, kept, maps.biases), architecture=architecture, fit=FIT)
    with pytest.raises(MapError, match=f"layers {gone};"):
        load_maps(tmp_path / "m")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("layers", 7),
        ("hidden", 64),
        ("kv_heads", 4),
        ("head_dim", 16),
        ("layer_types", ["attention"] * 5 + ["recurrent"]),
        ("tokenizer_sha256", "cd" * 32),
        ("family", "qwen3"),
    ],
)
def test_another_model_is_refused_with_both_sides_named(folder, architecture, key, value):
    """Geometry, layer types and tokenizer must be those the maps were fitted for."""
    with pytest.raises(MapError, match="were fitted for") as caught:
        load_maps(folder, architecture={**architecture, key: value})
    assert key in str(caught.value)
    assert repr(value) in str(caught.value)
    assert repr(architecture[key]) in str(caught.value)


def test_another_model_name_is_no_reason_to_refuse(folder, architecture):
    """The same network under another name takes the maps."""
    assert load_maps(folder, architecture={**architecture, "model": "renamed"}).split == SPLIT


def test_another_format_is_refused(folder):
    """A manifest of a later version says which one this is."""
    rewrite(folder, lambda manifest: manifest.update(format=2))
    with pytest.raises(MapError, match="format 2; this version reads format 1"):
        load_maps(folder)


def test_maps_move_to_the_models_type(random_maps):
    """``to`` changes the type of every tensor and keeps the values to its rounding."""
    maps = random_maps(SPLIT)
    moved = maps.to(torch.bfloat16, torch.device("cpu"))
    state = torch.ones(1, 2, 32, dtype=torch.bfloat16)
    assert moved.predict(4, state).dtype == torch.bfloat16
    assert torch.equal(moved.weights[4], maps.weights[4].bfloat16())
