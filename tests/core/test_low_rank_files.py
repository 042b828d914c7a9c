"""Low-rank maps on disk: back as they were, and refused when damaged, incomplete or another model's."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from ridgefill.errors import MapError, ResultsError
from ridgefill.files import sha256_file
from ridgefill.low_rank_files import FACTORS, MANIFEST, load_fitted, save_low_rank
from ridgefill.maps import RidgeMaps, save_maps
from ridgefill.ridge_options import LowRankMaps

SPLIT, LAYERS, WIDTH, RANK = 3, 6, 32, 5


def made(split=SPLIT, layers=LAYERS, rank=RANK, identity=False, width=WIDTH):
    """Seeded factors of every late layer."""
    generator = torch.Generator().manual_seed(rank)
    shapes = ((WIDTH, rank), (rank, width), (WIDTH,))
    parts = [{layer: torch.randn(shape, generator=generator) for layer in range(split, layers)} for shape in shapes]
    return LowRankMaps(split, *parts, identity)


def same(found, expected):
    """Every factor to the bit, and whether the state passes whole."""
    pairs = [(getattr(found, part), getattr(expected, part)) for part in ("left", "right", "biases")]
    equal = all(list(a) == list(b) and all(torch.equal(a[layer], b[layer]) for layer in b) for a, b in pairs)
    return equal and (found.split, found.identity) == (expected.split, expected.identity)


@pytest.fixture
def architecture(adapter):
    """The fingerprint of the six-layer model and of its tokenizer."""
    return {**adapter.fingerprint, "tokenizer_sha256": "a" * 64}


@pytest.fixture
def folder(tmp_path, architecture):
    """Maps of the model, written."""
    save_low_rank(tmp_path / "maps", made(), architecture=architecture, fit={"lam": 0.1})
    return tmp_path / "maps"


@given(split=st.integers(1, 5), rank=st.integers(1, WIDTH), identity=st.booleans())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_maps_come_back_as_they_were(tmp_path_factory, architecture, split, rank, identity):
    """Property: of any split and rank, and what they predict with them."""
    maps, folder = made(split, rank=rank, identity=identity), tmp_path_factory.mktemp("maps") / "one"
    save_low_rank(folder, maps, architecture=architecture, fit={})
    found = load_fitted(folder, architecture)
    assert same(found, maps)
    state = torch.randn(1, 4, WIDTH, generator=torch.Generator().manual_seed(1))
    assert torch.equal(found.predict(5, state), maps.predict(5, state))


def test_whole_maps_are_read_by_the_same_call(tmp_path, architecture, random_maps):
    """In the published layout, which is told by what the folder holds."""
    maps = random_maps(SPLIT).to(torch.bfloat16, torch.device("cpu")).to(torch.float32, torch.device("cpu"))
    save_maps(tmp_path / "whole", maps, architecture=architecture, fit={})
    found = load_fitted(tmp_path / "whole", architecture)
    assert isinstance(found, RidgeMaps)
    assert all(torch.equal(found.weights[layer].float(), maps.weights[layer]) for layer in maps.weights)


def test_what_was_fitted_is_written_beside_them(folder, architecture):
    """For whoever opens the folder; the factors are fp32 and no larger than they have to be."""
    manifest = json.loads((folder / MANIFEST).read_text())
    assert (manifest["fit"], manifest["architecture"]) == ({"lam": 0.1}, architecture)
    assert manifest["sha256"] == sha256_file(folder / FACTORS)
    tensors = load_file(folder / FACTORS)
    assert {str(tensor.dtype) for tensor in tensors.values()} == {"torch.float32"}
    assert sum(tensor.numel() for tensor in tensors.values()) == (LAYERS - SPLIT) * (2 * RANK * WIDTH + WIDTH)


def test_a_folder_that_is_there_is_not_written_over(folder, architecture):
    """And stays as it was."""
    with pytest.raises(ResultsError, match="maps could not be written"):
        save_low_rank(folder, made(identity=True), architecture=architecture, fit={})
    assert same(load_fitted(folder, architecture), made())
    assert sorted(path.name for path in folder.parent.iterdir()) == ["maps"]


@pytest.mark.parametrize("place", [0, 9, 500, -1])
def test_a_changed_byte_is_refused(folder, architecture, place):
    """In the header, in its length, and in the numbers."""
    data = bytearray((folder / FACTORS).read_bytes())
    data[place] ^= 1
    (folder / FACTORS).write_bytes(bytes(data))
    with pytest.raises(MapError, match=r"is not the file that low-rank\.json beside it describes"):
        load_fitted(folder, architecture)


def test_missing_and_shortened_files_are_refused(folder, architecture):
    """The factors, or a part of them."""
    (folder / FACTORS).write_bytes((folder / FACTORS).read_bytes()[:-4])
    with pytest.raises(MapError, match="is not the file"):
        load_fitted(folder, architecture)
    (folder / FACTORS).unlink()
    with pytest.raises(MapError, match=r"cannot be read \(.*factors.safetensors.*fit them again"):
        load_fitted(folder, architecture)


BROKEN = {
    "no JSON": "{",
    "not UTF-8": b"\xff\xfe",
    "a list": "[]",
    "a number": "7",
    "no architecture": {"architecture": ...},
    "an architecture of text": {"architecture": "llama"},
    "an architecture of nothing": {"architecture": None},
    "no hash": {"sha256": ...},
    "no split": {"split": ...},
    "a split of text": {"split": "three"},
    "a split of nothing": {"split": None},
    "no word on the identity": {"identity": ...},
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_manifest_is_refused_as_maps_to_be_fitted_again(folder, architecture, case):
    """Whatever is wrong with it, by the folder's name."""
    changed = BROKEN[case]
    if isinstance(changed, dict):
        manifest = json.loads((folder / MANIFEST).read_text()) | changed
        changed = json.dumps({key: value for key, value in manifest.items() if value is not ...})
    (folder / MANIFEST).write_bytes(changed if isinstance(changed, bytes) else changed.encode())
    with pytest.raises(MapError, match=r"maps in .*maps cannot be read"):
        load_fitted(folder, architecture)


OTHERS = {"layers": 8, "hidden": 64, "tokenizer_sha256": "b" * 64}


@pytest.mark.parametrize("key", OTHERS)
def test_maps_of_another_model_are_refused_with_both_sides(folder, architecture, key):
    """Depth, width and tokenizer."""
    with pytest.raises(MapError, match=f"were fitted for {key} .*but the model has") as caught:
        load_fitted(folder, architecture | {key: OTHERS[key]})
    assert repr(OTHERS[key]) in str(caught.value)


def rewritten(folder, change):
    """The factors changed, and the manifest made to describe them."""
    tensors = load_file(folder / FACTORS)
    change(tensors)
    save_file(tensors, folder / FACTORS)
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"sha256": sha256_file(folder / FACTORS)}))


CHANGES = {
    "left.4": lambda tensors: tensors.pop("left.4"),
    "bias.3": lambda tensors: tensors.pop("bias.3"),
    "bias.5, left.5, right.5": lambda tensors: [tensors.pop(f"{part}.5") for part in ("left", "right", "bias")],
    "left.2": lambda tensors: tensors.update({"left.2": torch.zeros(2)}),
    "left.x": lambda tensors: tensors.update({"left.x": torch.zeros(2)}),
    "scale.3": lambda tensors: tensors.update({"scale.3": torch.zeros(2)}),
}


@pytest.mark.parametrize("odd", CHANGES)
def test_missing_and_extra_factors_are_named(folder, architecture, odd):
    """A factor, a whole layer, and what no layer from the split on has; found though the hashes agree."""
    rewritten(folder, CHANGES[odd])
    with pytest.raises(MapError) as caught:
        load_fitted(folder, architecture)
    assert f"has missing or extra factors {odd}; expected left, right and bias of the layers 3 to" in str(caught.value)


WRONG = {
    "left.4": torch.zeros(WIDTH, RANK + 1),
    "right.3": torch.zeros(RANK, WIDTH + 1),
    "bias.5": torch.zeros(WIDTH + 1),
    "left.3": torch.zeros(WIDTH),
}


@pytest.mark.parametrize("name", WRONG)
def test_factors_that_do_not_fit_together_are_named(folder, architecture, name):
    """Ranks that differ, and widths that are not the model's."""
    rewritten(folder, lambda tensors: tensors.update({name: WRONG[name]}))
    with pytest.raises(MapError, match=rf"the factors of layer {name[-1]} .*do not fit") as caught:
        load_fitted(folder, architecture)
    assert str(list(WRONG[name].shape)) in str(caught.value)


def test_a_split_of_another_model_leaves_layers_without_factors(folder, architecture):
    """A manifest that says a lower split than its factors were fitted for."""
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(manifest | {"split": 2}))
    with pytest.raises(MapError, match=r"missing or extra factors bias\.2, left\.2, right\.2"):
        load_fitted(folder, architecture)


def test_a_failed_write_leaves_nothing(tmp_path, architecture, monkeypatch):
    """Neither the folder nor a part of it."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ridgefill.low_rank_files.save_file", full)
    with pytest.raises(ResultsError, match="No space left"):
        save_low_rank(tmp_path / "maps", made(), architecture=architecture, fit={})
    assert list(tmp_path.iterdir()) == []


def test_maps_of_streams_are_wider_than_what_they_predict(tmp_path, architecture):
    """A hyper-connection model's split state is all its streams side by side."""
    wide, maps = {**architecture, "width": 4 * WIDTH}, made(width=4 * WIDTH)
    save_low_rank(tmp_path / "maps", maps, architecture=wide, fit={})
    assert same(load_fitted(tmp_path / "maps", wide), maps)
    shutil.rmtree(tmp_path / "maps")
    save_low_rank(tmp_path / "maps", replace(maps, right=made().right), architecture=wide, fit={})
    with pytest.raises(MapError, match="do not fit"):
        load_fitted(tmp_path / "maps", wide)
