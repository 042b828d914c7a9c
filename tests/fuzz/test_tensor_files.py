"""Safetensors files that are no maps of ours: each reader takes them or refuses them in one sentence."""

import json
import runpy
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from ridgefill.corrections.files import CORRECTION, correction_bytes, load_correction
from ridgefill.low_rank_files import FACTORS, load_fitted, save_low_rank
from ridgefill.low_rank_files import MANIFEST as LOW_RANK
from ridgefill.mapfiles.names import read_header
from ridgefill.mapfiles.research import read_research
from ridgefill.models.kva import load_kva
from ridgefill.moments import Moments, load_moments, save_moments
from ridgefill.ridge_options import LowRankMaps
from ridgefill.selectors.frequency_files import load_frequencies, load_rowsel

MANGLING = runpy.run_path(str(Path(__file__).with_name("mangling.py")))
FUZZ, as_json, documents, refused_or_read, spoiled, tensor_files, with_header = (
    MANGLING[name]
    for name in ("FUZZ", "as_json", "documents", "refused_or_read", "spoiled", "tensor_files", "with_header")
)
ARCHITECTURE = {
    "layers": 3, "hidden": 4, "heads": 1, "kv_heads": 1, "head_dim": 4, "layer_types": ["attention"] * 3
}  # fmt: skip


def numbers(*shape, kind=torch.float32):
    return (torch.arange(torch.Size(shape).numel(), dtype=torch.float32) / 7).reshape(shape).to(kind)


RESEARCH = save({f"layer.{layer}": numbers(4, 5, kind=torch.bfloat16) for layer in (1, 2)})
STATES = correction_bytes({1: numbers(2, 3, 3)})
COUNTS = save({"counts": torch.arange(6)})
SCORES = save({name: numbers(6) for name in ("score", "score_none", "score_all")})
HEADS = save(
    {f"layers.{layer}.{part}.weight": numbers(4, 4) for layer in (1, 2) for part in "kv"}
    | {f"layers.{layer}.{part}.bias": numbers(4) for layer in (1, 2) for part in "kv"}
    | {f"layers.{layer}.norm.weight": numbers(4) for layer in (1, 2)},
    {"enc_layers": "1", "eps": "1e-5", "architecture": json.dumps(ARCHITECTURE)},
)
READERS = {
    "research": (RESEARCH, read_research),
    "correction": (STATES, load_correction),
    "counts": (COUNTS, load_frequencies),
    "scores": (SCORES, load_rowsel),
    "heads": (HEADS, lambda path: load_kva(path, ARCHITECTURE)),
    "header": (RESEARCH, read_header),
}
AWKWARD = [
    b"", b"\0" * 7, b"\0" * 8, struct.pack("<Q", 2**63), struct.pack("<Q", 2**40) + b"{}", b"\xff" * 64,
    with_header([], b""), with_header({"a": 1}, b""), with_header({"__metadata__": []}, b""),
    with_header({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}, b"\0"),
    with_header({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}, b""),
    with_header({"a": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 0]}}, b""),
    with_header({"layer.99999999999": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]},
                 "layer.1": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [4, 8]}}, b"\0" * 8),
    with_header({"layer." + "9" * 5000: {"dtype": "BF16", "shape": [1, 2], "data_offsets": [0, 4]}}, b"\0" * 4),
    with_header({"st." + "9" * 5000: {"dtype": "F32", "shape": [1, 1, 1], "data_offsets": [0, 4]}}, b"\0" * 4),
    with_header({"counts": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 4),
    with_header({"__metadata__": {"type": "ctx", "d": "4", "n_blocks": "9" * 12, "n_heads": "1", "ffn": "1"}}, b""),
    with_header({"__metadata__": {"architecture": "[" * 9000}}, b""),
    with_header({"__metadata__": {"architecture": "[1]"}}, b""),
    with_header({"__metadata__": {"enc_layers": "9" * 5000}}, b""),
    with_header({"__metadata__": {"layers": "x", "splits": "", "rows": "-"}}, b""),
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("tensors") / "file.safetensors"


@pytest.mark.parametrize("kind", READERS)
def test_sound_files_are_read(file, kind):
    data, reader = READERS[kind]
    file.write_bytes(data)
    assert refused_or_read(lambda: reader(file)) is not None


@pytest.mark.parametrize("kind", READERS)
@FUZZ
@given(drawn=st.data())
def test_spoiled_files(file, kind, drawn):
    data, reader = READERS[kind]
    file.write_bytes(drawn.draw(tensor_files(data)))
    refused_or_read(lambda: reader(file))


@pytest.mark.parametrize("kind", [*READERS, "moments"])
@pytest.mark.parametrize("number", range(len(AWKWARD)))
def test_files_that_claim_what_they_do_not_hold(file, kind, number):
    file.write_bytes(AWKWARD[number])
    reader = load_moments if kind == "moments" else READERS[kind][1]
    refused_or_read(lambda: reader(file))


@pytest.mark.parametrize("place", ["folder", "missing", "a\0b"])
@pytest.mark.parametrize("kind", READERS)
def test_what_is_no_file(tmp_path, kind, place):
    (tmp_path / "folder").mkdir()
    assert refused_or_read(lambda: READERS[kind][1](tmp_path / place)) is None


@pytest.fixture(scope="module")
def moments(tmp_path_factory):
    path = tmp_path_factory.mktemp("moments") / "moments.safetensors"
    layers = (1, 2)
    made = Moments(
        3, (1,), 8, {layer: numbers(4) for layer in layers}, {layer: torch.tensor(1.0) for layer in layers},
        {1: numbers(4, 4)}, {1: numbers(2, 4, 4)}, {},
    )  # fmt: skip
    save_moments(path, made, {"git_commit": "x"})
    return path.read_bytes()


@FUZZ
@given(drawn=st.data())
def test_spoiled_moments(file, moments, drawn):
    file.write_bytes(drawn.draw(tensor_files(moments)))
    refused_or_read(lambda: load_moments(file))


@pytest.fixture(scope="module")
def low_rank(tmp_path_factory):
    folder = tmp_path_factory.mktemp("low") / "maps"
    maps = LowRankMaps(
        1, {1: numbers(4, 2), 2: numbers(4, 2)}, {1: numbers(2, 4), 2: numbers(2, 4)}, {1: numbers(4), 2: numbers(4)},
        False,
    )  # fmt: skip
    save_low_rank(folder, maps, architecture=ARCHITECTURE, fit={})
    assert load_fitted(folder, ARCHITECTURE).split == 1
    return folder


@FUZZ
@given(drawn=st.data())
def test_spoiled_low_rank_maps(low_rank, drawn):
    path = low_rank / LOW_RANK
    sound = path.read_bytes()
    content = json.loads(sound)
    try:
        path.write_bytes(drawn.draw(spoiled(sound) | documents(content).map(as_json)))
        refused_or_read(lambda: load_fitted(low_rank, ARCHITECTURE))
    finally:
        path.write_bytes(sound)


def test_low_rank_maps_of_endless_layers(low_rank):
    path = low_rank / LOW_RANK
    sound = path.read_bytes()
    path.write_bytes(as_json({**json.loads(sound), "split": -(10**12)}))
    assert refused_or_read(lambda: load_fitted(low_rank, ARCHITECTURE)) is None
    path.write_bytes(sound)
    assert (low_rank / FACTORS).is_file()


def test_the_name_of_the_file_of_states():
    assert CORRECTION.endswith(".safetensors")
