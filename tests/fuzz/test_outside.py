"""Nothing outside the folder that a file was given for is read or written, nothing is unpickled, and what claims to be
huge takes no memory."""

import hashlib
import json
import pickle
import resource
import sys
from contextlib import contextmanager
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ridgefill.errors import MapError, ModelError
from ridgefill.mapfiles.manifest import SUMS
from ridgefill.mapfiles.verify import verify
from ridgefill.maps import RidgeMaps, save_maps
from ridgefill.models.load import RECORD, convert_gguf, load_any
from ridgefill.pretrained import RidgeFillMaps

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


@contextmanager
def little_memory():
    """The block may not raise this process's largest size by more than a few bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < FEW_BYTES


class Bomb:
    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return (Path.touch, (self.mark,))


@pytest.fixture
def maps(tmp_path):
    folder = tmp_path / "inside" / "maps"
    one = {layer: torch.eye(4) for layer in (1, 2)}
    bias = {layer: torch.zeros(4) for layer in (1, 2)}
    save_maps(folder, RidgeMaps(1, one, bias), architecture={"layers": 3, "hidden": 4}, fit={})
    return folder


@pytest.mark.parametrize("name", ["{outside}", "../../outside", "maps/../../../outside", "./../../outside"])
def test_checksums_name_no_file_outside(maps, tmp_path, name):
    outside = tmp_path / "outside"
    outside.write_text("secret")
    with (maps / SUMS).open("a") as stream:
        stream.write(f"{'0' * 64}  {name.format(outside=outside)}\n")
    with opened() as paths:
        found = verify(maps)
    assert not [path for path in paths if path.endswith("outside")]
    assert hashlib.sha256(b"secret").hexdigest() not in str(found)


def test_a_file_of_maps_that_is_a_device_is_not_read(maps):
    (maps / "proj.L1.safetensors").unlink()
    (maps / "proj.L1.safetensors").symlink_to("/dev/zero")
    with little_memory():
        assert verify(maps).problems
        with pytest.raises(MapError):
            RidgeFillMaps.from_pretrained(maps)


@pytest.mark.parametrize("name", ["proj.L1.safetensors", "proj.L1.bin", "pytorch_model.bin", "maps.pt"])
def test_a_pickle_among_maps_is_never_loaded(maps, tmp_path, name):
    data, mark = pickle.dumps(Bomb(tmp_path / "ran")), tmp_path / "ran"
    (maps / name).write_bytes(data)
    if name == "proj.L1.safetensors":
        sums = (maps / SUMS).read_text()
        with pytest.raises(MapError):
            RidgeFillMaps.from_pretrained(maps)
        assert sums
    else:
        RidgeFillMaps.from_pretrained(maps)
    with pytest.raises(MapError):
        RidgeFillMaps.from_pretrained(maps / name)
    assert not mark.exists()


def tiny_model(folder, **changed):
    config = LlamaConfig(
        num_hidden_layers=2, hidden_size=8, num_attention_heads=2, num_key_value_heads=1, intermediate_size=16,
        vocab_size=32, max_position_embeddings=64,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"a": 0, "<unk>": 1}, unk_token="<unk>")), unk_token="<unk>"
    ).save_pretrained(folder)
    content = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**content, **changed}))
    return folder


def test_a_small_model_is_loaded(tmp_path):
    assert load_any(str(tiny_model(tmp_path / "model"))).adapter.layers == 2


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_a_model_that_is_a_pickle_is_never_loaded(tmp_path, name):
    folder = tiny_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / name).write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    with pytest.raises(ModelError, match="safetensors"):
        load_any(str(folder))
    assert not (tmp_path / "ran").exists()


def test_a_tokenizer_that_panics_is_one_sentence(tmp_path):
    """The library's own panic is no Exception. Two merges whose product no vocabulary has bring it about."""
    folder = tiny_model(tmp_path / "model")
    content = json.loads((folder / "tokenizer.json").read_text())
    content["model"] = {
        "type": "BPE",
        "vocab": {"a": 0, "<unk>": 1, "b": 2},
        "merges": [["a", "b"]],
        "unk_token": "<unk>",
    }
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(ModelError) as refusal:
        load_any(str(folder))
    assert "\n" not in str(refusal.value)


def test_code_beside_a_model_is_never_run(tmp_path):
    folder = tiny_model(tmp_path / "model", auto_map={"AutoConfig": "evil.Config"}, model_type="unheard_of")
    (folder / "evil.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n")
    with pytest.raises(ModelError):
        load_any(str(folder))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "claim",
    [{"num_hidden_layers": 10**9}, {"vocab_size": 10**9}, {"hidden_size": 2**20}, {"intermediate_size": 2**40},
     {"num_attention_heads": 2**20, "head_dim": 2**20}],
)  # fmt: skip
def test_a_model_that_claims_to_be_huge_takes_no_memory(tmp_path, claim):
    folder = tiny_model(tmp_path / "model", **claim)
    with little_memory(), pytest.raises(ModelError):
        load_any(str(folder))


def test_a_models_record_names_no_file_outside(tmp_path):
    folder = tiny_model(tmp_path / "inside" / "model")
    (tmp_path / "outside").write_text("secret")
    (folder / RECORD).write_text(json.dumps({"files": {"../../outside": "0" * 64}}))
    with opened() as paths, pytest.raises(ModelError):
        load_any(str(folder))
    assert not [path for path in paths if path.endswith("outside")]


def small_gguf(path, **changed):
    sizes = {"block_count": 1, "embedding_length": 8, "feed_forward_length": 16, "attention.head_count": 2,
             "attention.key_length": 4, "vocab_size": 32, **changed}  # fmt: skip
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in sizes.items():
        writer.add_uint64(f"llama.{name}", value)
    writer.add_tensor("token_embd.weight", np.zeros((32, 8), np.float32))
    writer.add_tensor("blk.0.ffn_up.weight", np.zeros((16, 8), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    "claim",
    [{"block_count": 10**9}, {"embedding_length": 2**40}, {"feed_forward_length": 2**50}, {"vocab_size": 2**40},
     {"attention.key_length": 2**40}, {"attention.head_count": 2**40}, {"expert_count": 2**30}],
)  # fmt: skip
def test_a_gguf_whose_settings_claim_to_be_huge_takes_no_memory(tmp_path, claim):
    path = small_gguf(tmp_path / "model.gguf", **claim)
    with little_memory(), pytest.raises(ModelError, match="claims"):
        convert_gguf(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_gguf_whose_tensors_claim_to_be_huge_takes_no_memory(tmp_path):
    path = small_gguf(tmp_path / "model.gguf")
    data = path.read_bytes()
    shape = np.array([8, 32], np.uint64).tobytes()
    assert data.count(shape) == 1
    path.write_bytes(data.replace(shape, np.array([2**30, 2**31], np.uint64).tobytes()))
    with little_memory(), pytest.raises(ModelError):
        convert_gguf(path, tmp_path / "out")


@pytest.mark.parametrize("data", [b"", b"GGUF", b"GGUF\3\0\0\0" + b"\xff" * 16, b"\0" * 64])
def test_bytes_that_are_no_gguf(tmp_path, data):
    path = tmp_path / "model.gguf"
    path.write_bytes(data)
    with little_memory(), pytest.raises(ModelError):
        convert_gguf(path, tmp_path / "out")
