"""Files of KVA heads: what is written reads back, in the layout of their author's own reader; all else is refused."""

import json
import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ridgefill.errors import MapError
from ridgefill.models.kva import KVA_FILE, KvaContext, load_kva, save_kva

HEADS = runpy.run_path(str(Path(__file__).with_name("kva_heads.py")))
LAYERS, random_heads = HEADS["LAYERS"], HEADS["random_heads"]


@pytest.mark.parametrize("blocks", [0, 2])
@pytest.mark.parametrize("family", ["qwen3"])
def test_a_written_file_reads_back_the_same(case, tmp_path, family, blocks):
    """Every tensor in its type, and all that the metadata says."""
    adapter = case().adapter
    heads = random_heads(adapter, blocks, eps=3e-5, architecture=dict(adapter.fingerprint))
    heads = replace(heads, tensors={name: one.half() for name, one in heads.tensors.items()})
    save_kva(tmp_path / KVA_FILE, heads)
    again = load_kva(tmp_path / KVA_FILE, adapter.fingerprint)
    assert replace(again, tensors={}) == replace(heads, tensors={})
    assert again.tensors.keys() == heads.tensors.keys()
    for name, one in heads.tensors.items():
        assert again.tensors[name].dtype == one.dtype
        assert torch.equal(again.tensors[name], one)


@pytest.mark.parametrize("family", ["qwen3"])
def test_a_file_says_what_its_authors_reader_looks_for(case, tmp_path, family):
    """Metadata is text under the names of the demo's reader, and the header comes first."""
    adapter = case().adapter
    save_kva(tmp_path / KVA_FILE, random_heads(adapter, 2))
    data = (tmp_path / KVA_FILE).read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert header["__metadata__"] == {
        "type": "ctx", "enc_layers": "3", "eps": "1e-06", "d": str(3 * adapter.head_dim), "n_blocks": "2",
        "n_heads": "3", "ffn": "40",
    }  # fmt: skip
    assert header["layers.5.k.weight"]["shape"] == [adapter.kv_heads * adapter.head_dim, adapter.hidden]
    assert header["ctx.blocks.1.n2"]["shape"] == [3 * adapter.head_dim]


def altered(heads, name, value=None):
    """The heads with one tensor changed, or left out."""
    tensors = {key: one for key, one in heads.tensors.items() if key != name}
    return replace(heads, tensors=tensors if value is None else tensors | {name: value})


BAD = {
    "missing": (lambda h: altered(h, "layers.4.k.bias"), r"lack layers\.4\.k\.bias and 0 more"),
    "unknown": (lambda h: altered(h, "layers.2.k.weight", torch.zeros(64, 32)), r"layers\.2\.k\.weight .* not known"),
    "shape": (lambda h: altered(h, "layers.4.k.weight", torch.zeros(64, 31)), r"\[64, 31\]; expected \[64, 32\]"),
    "nan": (lambda h: altered(h, "layers.4.v.bias", torch.full((64,), torch.nan)), r"not finite in layers\.4\.v\.bias"),
    "type": (lambda h: altered(h, "layers.4.v.bias", torch.zeros(64, dtype=torch.int8)), r"layers\.4\.v\.bias as int8"),
    "split": (lambda h: replace(h, split=4), r"not known"),
    "lower split": (lambda h: replace(h, split=2), r"lack layers\.2\."),
    "no late layer": (lambda h: replace(h, split=LAYERS), "split at 6 of 6 layers"),
    "context": (lambda h: replace(h, kind="ctx", context=KvaContext(48, 1, 3, 8)), r"lack ctx\."),
    "context width": (lambda h: replace(h, kind="ctx", context=KvaContext(50, 1, 3, 8)), "model's own width, 16"),
    "model": (lambda h: replace(h, architecture={"layers": 6, "hidden": 32, "head_dim": 8}), "head_dim"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("family", ["qwen3"])
def test_a_file_that_does_not_fit_is_refused(case, tmp_path, family, bad):
    """One sentence that names the file, what it holds and what the model needs."""
    change, message = BAD[bad]
    adapter = case().adapter
    save_kva(tmp_path / KVA_FILE, change(random_heads(adapter)))
    with pytest.raises(MapError, match=message) as caught:
        load_kva(tmp_path / KVA_FILE, adapter.fingerprint)
    assert KVA_FILE in str(caught.value)


@pytest.mark.parametrize("text", ["enc_layers", "eps", "d"])
@pytest.mark.parametrize("family", ["qwen3"])
def test_metadata_that_cannot_be_read_is_refused(case, tmp_path, family, text):
    """A number that is none is named, not a traceback."""
    adapter, path = case().adapter, tmp_path / KVA_FILE
    save_kva(path, random_heads(adapter, 1))
    data = path.read_bytes()
    start = data.index(b'":"', data.index(f'"{text}":"'.encode())) + 3
    path.write_bytes(data[:start] + b"x" + data[start + 1 :])
    with pytest.raises(MapError, match=r"metadata of .* expected enc_layers"):
        load_kva(path, adapter.fingerprint)


@pytest.mark.parametrize("data", [b"", b"not safetensors at all", None])
@pytest.mark.parametrize("family", ["qwen3"])
def test_what_is_no_file_of_heads_is_refused(case, tmp_path, family, data):
    """Missing, empty, or something else."""
    path = tmp_path / KVA_FILE
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(MapError, match=f"give the {KVA_FILE}"):
        load_kva(path, case().adapter.fingerprint)
