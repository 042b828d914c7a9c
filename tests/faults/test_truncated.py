"""Files that were cut short, at any length: refused by name before anything of them is used."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from gguf import GGUFWriter

from ridgefill.config import load_model
from ridgefill.errors import ModelError, ResultsError
from ridgefill.results import read_table, write_table

MARKS = {"git_commit": "x", "config_sha256": "x", "ledger_entry": "local/2"}
ROW = {"split": 2, "layer": 3, "lam": 0.1, "alpha": 1.0, "condition": 2.0, "residual_share": 0.5}


def lengths(whole, steps=16):
    """Lengths from nothing to one byte less than the whole."""
    return sorted({0, 1, 8, 9, whole - 1} | {whole * step // steps for step in range(1, steps)})


def test_truncated_weights_are_refused_at_every_length(fresh, tmp_path, monkeypatch):
    """A model folder of one's own has no recorded hashes: the reader's refusal becomes one sentence with the folder."""
    from ridgefill.models.load import load_model_folder

    monkeypatch.chdir(fresh.root)
    folder = tmp_path / "model"
    shutil.copytree(fresh.root / "model", folder)
    config = load_model("tiny", fresh.root)
    assert load_model_folder(folder, config, "float32").adapter.layers == 6
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    for length in lengths(len(data)):
        weights.write_bytes(data[:length])
        with pytest.raises(
            ModelError, match=r"(damaged safetensors file|could not be loaded as tiny) .*fetch the model's files again"
        ):
            load_model_folder(folder, config, "float32")


def test_a_truncated_table_is_refused_at_every_length(tmp_path):
    """A Parquet file is read from its end: without it nothing of the file is taken for a row."""
    path = tmp_path / "fit_layers.parquet"
    write_table(path, "fit_layers", [ROW | {"layer": layer} for layer in range(3, 40)], MARKS)
    data = path.read_bytes()
    assert read_table(path, "fit_layers").num_rows == 37
    for length in lengths(len(data), 64):
        path.write_bytes(data[:length])
        with pytest.raises(
            ResultsError, match=r"fit_layers\.parquet is not a readable Parquet file .*run its step again"
        ):
            read_table(path, "fit_layers")


def write_gguf(path):
    """A GGUF of one small Llama layer with a tokenizer, as converters write it."""
    random = np.random.default_rng(0)
    writer = GGUFWriter(str(path), "llama")
    for value, name in (
        (64, "context_length"), (32, "embedding_length"), (1, "block_count"), (64, "feed_forward_length"),
        (4, "head_count"), (2, "head_count_kv"), (8, "rope_dimension_count"), (48, "vocab_size"),
    ):  # fmt: skip
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([*(chr(33 + number) for number in range(47)), '!"'])
    writer.add_token_types([1] * 48)
    writer.add_token_merges(['! "'])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    shapes = {
        "token_embd": (48, 32), "output_norm": (32,), "output": (48, 32), "blk.0.attn_norm": (32,),
        "blk.0.ffn_norm": (32,), "blk.0.attn_q": (32, 32), "blk.0.attn_k": (16, 32), "blk.0.attn_v": (16, 32),
        "blk.0.attn_output": (32, 32), "blk.0.ffn_gate": (64, 32), "blk.0.ffn_up": (64, 32), "blk.0.ffn_down": (32, 64),
    }  # fmt: skip
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", random.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_a_truncated_gguf_is_refused_at_every_length(tmp_path):
    """The whole file is converted; cut short it is named, and no folder is left that a later step would load."""
    from ridgefill.models.load import convert_gguf

    path = tmp_path / "tiny.gguf"
    write_gguf(path)
    convert_gguf(path, tmp_path / "whole")
    assert (tmp_path / "whole/model.safetensors").is_file()
    data = path.read_bytes()
    for length in lengths(len(data), 8):
        path.write_bytes(data[:length])
        with pytest.raises(ModelError, match=r"tiny\.gguf could not be read as a GGUF model"):
            convert_gguf(path, tmp_path / "out")
        assert sorted(one.name for one in tmp_path.iterdir()) == ["tiny.gguf", "whole"]
