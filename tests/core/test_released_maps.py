"""Maps as the released repositories spell them: read, refused, quantised and written again without loss."""

import json

import pytest
import torch

from ridgefill.errors import MapError
from ridgefill.files import sha256_file
from ridgefill.mapfiles.folder import read_folder
from ridgefill.mapfiles.int8 import Int8Weights, quantise
from ridgefill.mapfiles.layers import layer_bytes
from ridgefill.mapfiles.quantize import quantize
from ridgefill.maps import load_maps
from ridgefill.pretrained import RidgeFillMaps

SPLIT, LAYERS, D_IN, D_OUT = 4, 8, 256, 64
CREDIT = {"format": "ridgefill-projector-1", "name": "maps-i8", "authors": "A B, C", "license": "Apache-2.0"}
KINDS = ["linear_attention"] * 3 + ["full_attention"]

# What an adapter of that model says of itself.
MODEL = {
    "family": "qwen4_exp",
    "layers": LAYERS,
    "hidden": D_OUT,
    "width": D_IN,
    "heads": 4,
    "layer_types": ["linear_attention"] * 3 + ["indexed_attention"] + ["linear_attention"] * 3 + ["indexed_attention"],
    "linear_num_value_heads": 4,
    "linear_value_head_dim": 16,
    "linear_key_head_dim": 8,
    "tokenizer_sha256": "ab" * 32,
}


def layer_files(encoding):
    generator = torch.Generator().manual_seed(7)
    files = {}
    for layer in range(SPLIT, LAYERS):
        weights = {layer: torch.randn(D_OUT, D_IN, generator=generator)}
        bias = torch.randn(D_OUT, generator=generator)
        stem = {"bf16": "proj", "int8": "proj8"}[encoding]
        files[f"{stem}.L{layer}.safetensors"] = layer_bytes(layer, weights, bias, encoding, CREDIT)
    return files


def manifest(files, encoding):
    """The released spelling: numbers as text under model.meta, split and widths at the top."""
    return {
        "format": 1,
        "name": "maps-i8",
        "authors": ["A B", "C"],
        "license": "Apache-2.0",
        "adapter": "qwen4exp",
        "model": {
            "arch_id": "qwen4exp",
            "name": "Model-X",
            "meta": {
                "model_type": "qwen4_exp",
                "n_layers": str(LAYERS),
                "n_embd": str(D_OUT),
                "layer_types": " ".join(KINDS * 2),
                "linear_num_value_heads": "4",
                "linear_value_head_dim": "16",
                "linear_key_head_dim": "8",
            },
            "vocab_sha256": "cd" * 32,
        },
        "split": SPLIT,
        "stream_width": D_IN,
        "block_in_width": D_OUT,
        "projector": {"dtype": {"bf16": "bf16", "int8": "i8"}[encoding], "layout": "?", "files": {}},
        "fit": {"engine": "one", "tokenizer_json_sha256": "ab" * 32},
        "files": files,
    }


def write(folder, encoding="int8", change=lambda content: None, others=None):
    """Such a folder: layer files, a state correction, a template, a README that is hashed nowhere."""
    folder.mkdir()
    others = {"correction.safetensors": b"states", "chat_template.jinja": b"hello"} if others is None else others
    for name, data in {**layer_files(encoding), **others}.items():
        (folder / name).write_bytes(data)
    hashes = {path.name: sha256_file(path) for path in sorted(folder.iterdir())}
    content = manifest(hashes, encoding)
    change(content)
    (folder / "ridgefill.json").write_text(json.dumps(content))
    (folder / "README.md").write_text("a card")
    (folder / "LICENSE").write_text("terms")
    names = sorted(path.name for path in folder.iterdir())
    lines = [f"{sha256_file(folder / name)}  {name}\n" for name in names if name != "README.md"]
    (folder / "SHA256SUMS").write_text("".join([*lines, f"{'0' * 64}  README.md\n"]))
    return folder


@pytest.fixture
def released(tmp_path):
    """An int8 folder."""
    return write(tmp_path / "released")


def test_released_int8_maps_load_as_code_times_scale(released):
    """Of the hyper-connection shape [hidden, width]; codes stay codes."""
    maps = load_maps(released, architecture=MODEL)
    generator = torch.Generator().manual_seed(7)
    assert maps.split == SPLIT
    assert isinstance(maps.weights, Int8Weights)
    for layer in range(SPLIT, LAYERS):
        codes, scale = quantise(torch.randn(D_OUT, D_IN, generator=generator))
        bias = torch.randn(D_OUT, generator=generator)
        assert torch.equal(maps.weights.codes[layer], codes)
        assert torch.equal(maps.weights.scales[layer], scale)
        assert torch.equal(maps.biases[layer], bias.bfloat16().float())
    assert maps.predict(SPLIT, torch.zeros(1, D_IN)).shape == (1, D_OUT)


@pytest.mark.parametrize("encoding", ["int8", "bf16"])
def test_loading_and_saving_gives_every_file_byte_for_byte(tmp_path, encoding):
    """Layer files with their credit headers, and the files beside them; the manifest keeps its own keys."""
    source = write(tmp_path / "source", encoding)
    RidgeFillMaps.from_pretrained(source).save_pretrained(tmp_path / "again")
    before, after = (json.loads((folder / "ridgefill.json").read_text()) for folder in (source, tmp_path / "again"))
    assert after["files"] == before["files"]
    for name in before["files"]:
        assert (tmp_path / "again" / name).read_bytes() == (source / name).read_bytes()
    assert {key: after[key] for key in ("name", "authors", "model", "split", "stream_width")} == {
        key: before[key] for key in ("name", "authors", "model", "split", "stream_width")
    }
    assert after["projector"]["files"]["5"] in after["files"]
    RidgeFillMaps.from_pretrained(tmp_path / "again").save_pretrained(tmp_path / "third")
    for path in (tmp_path / "again").iterdir():
        assert (tmp_path / "third" / path.name).read_bytes() == path.read_bytes()


def test_quantising_released_bf16_maps_gives_the_int8_release(tmp_path):
    """The codes of the bf16 values, the same credit, every other file, and a manifest that is true of them."""
    source = write(tmp_path / "source", "bf16")
    errors = quantize(source, tmp_path / "int8")
    bf16, int8 = read_folder(source), read_folder(tmp_path / "int8")
    for layer in range(SPLIT, LAYERS):
        codes, scale = quantise(bf16.weights[layer])
        assert torch.equal(int8.weights.codes[layer], codes)
        assert torch.equal(int8.weights.scales[layer], scale)
        assert torch.equal(int8.biases[layer], bf16.biases[layer].float())
        # Half a step of the coarsest group.
        assert 0 < errors[layer].mean < errors[layer].worst <= float(scale.max()) / 2
    assert int8.carried.beside == {"correction.safetensors": b"states", "chat_template.jinja": b"hello"}
    assert int8.carried.header == CREDIT
    content = json.loads((tmp_path / "int8/ridgefill.json").read_text())
    assert content["projector"]["dtype"] == "i8"
    assert content["projector"]["files"] == {str(n): f"proj8.L{n}.safetensors" for n in range(SPLIT, LAYERS)}
    assert content["fit"]["encoding"] == "int8"
    assert content["fit"]["int8"]["worst_error"] == max(one.worst for one in errors.values())
    assert content["fit"]["int8"]["from_manifest_sha256"] == sha256_file(source / "ridgefill.json")


def test_int8_maps_are_not_quantised_twice(released, tmp_path):
    """The second rounding would be of values already rounded."""
    with pytest.raises(MapError, match="holds int8 maps already"):
        quantize(released, tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("layers", 12, "layers 8, but the model has 12"),
        ("hidden", 32, "hidden 64, but the model has 32"),
        ("width", 64, "width 256, but the model has 64"),
        ("linear_num_value_heads", 8, "linear_num_value_heads 4, but the model has 8"),
        ("linear_value_head_dim", 8, "linear_value_head_dim 16, but the model has 8"),
        ("linear_key_head_dim", 16, "linear_key_head_dim 8, but the model has 16"),
        ("tokenizer_sha256", "00" * 32, f"tokenizer_sha256 '{'ab' * 32}', but the model has '{'00' * 32}'"),
        ("layer_types", ["attention"] * 8, r"recurrent_layers [0, 1, 2, 4, 5, 6], but the model has []"),
        ("family", "llama", "family 'qwen4_exp', but the model has 'llama'"),
    ],
)
def test_a_model_of_other_geometry_is_refused_by_name(released, key, value, words):
    """Dimensions, layer types, recurrent heads and tokenizer: both sides stand in the message."""
    with pytest.raises(MapError) as caught:
        load_maps(released, architecture={**MODEL, key: value})
    assert words in str(caught.value)


def test_another_name_or_weight_encoding_only_warns(released):
    """The same network served otherwise; the owner and the case of a name are not looked at."""
    load_maps(released, architecture={**MODEL, "model": "owner/model-x"})
    with pytest.warns(UserWarning, match="for model 'Model-X', and the model has 'Model-Y'"):
        load_maps(released, architecture={**MODEL, "model": "Model-Y"})


def unlist(content):
    del content["files"]["correction.safetensors"]


def test_a_file_beside_the_maps_may_be_anything_that_the_manifest_lists_or_not(tmp_path):
    """Only listed files are hashed and carried; the others belong to the hub."""
    stored = read_folder(write(tmp_path / "a", change=unlist))
    assert sorted(stored.carried.beside) == ["chat_template.jinja"]


@pytest.mark.parametrize("name", ["correction.safetensors", "proj8.L6.safetensors"])
def test_every_listed_file_must_be_there_and_unaltered(released, name):
    """A partial download or a flipped byte is refused by the file's name."""
    data = (released / name).read_bytes()
    (released / name).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(MapError, match=rf"{name} has SHA-256 .*; expected "):
        load_maps(released)
    (released / name).unlink()
    with pytest.raises(MapError, match=name):
        load_maps(released)


def drop_split(content):
    del content["split"]


def bad_split(content):
    content["split"] = 8


def no_meta(content):
    del content["model"]["meta"]


def outside(content):
    content["files"]["../x"] = "00"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (drop_split, r"lacks what a manifest of maps holds \(KeyError\('split'\)\)"),
        (bad_split, r"split 8 of 8 layers"),
        (no_meta, r"KeyError\('meta'\)"),
        (outside, r"lists '../x', which is no name of a file beside it"),
    ],
)
def test_a_manifest_without_what_is_needed_is_one_sentence(tmp_path, change, words):
    """Never a KeyError, and never a file outside the folder."""
    with pytest.raises(MapError, match=words):
        load_maps(write(tmp_path / "a", change=change))


def test_both_encodings_in_one_folder_are_refused(tmp_path):
    """Nobody could say which one was meant."""
    source = write(tmp_path / "a", others={"proj.L4.safetensors": b""})
    with pytest.raises(MapError, match="mixes bf16 and int8"):
        load_maps(source)
