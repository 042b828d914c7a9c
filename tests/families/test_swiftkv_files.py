"""Reading SwiftKV checkpoints: what is missing, unknown or of another layout is named."""

import runpy
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ridgefill.errors import ConfigError, ModelError
from ridgefill.models.llama_swiftkv import LlamaSwiftKVAdapter
from ridgefill.models.load import load_any
from ridgefill.models.swiftkv import load_swiftkv
from ridgefill.models.wrap import adapter_for
from ridgefill.passes import run_exact

FILES = runpy.run_path(str(Path(__file__).with_name("swiftkv_checkpoint.py")))
LAYERS, SPLIT, random_weights, write = (FILES[name] for name in ("LAYERS", "SPLIT", "random_weights", "write"))


@pytest.fixture
def whole(tmp_path):
    """The complete checkpoint."""
    return load_swiftkv(write(tmp_path / "reference", random_weights(1)))


@pytest.mark.parametrize(
    "name",
    [
        "model.norm_swiftkv.weight",
        "model.layers.5.self_attn.k_proj_swiftkv.weight",
        "model.layers.4.self_attn.v_proj.weight",
        "model.layers.1.self_attn.q_proj.weight",
    ],
)
def test_a_missing_tensor_is_named(tmp_path, name):
    """Also one of the original late projections alone: a checkpoint keeps all of them or none."""
    weights = {key: value for key, value in random_weights(1).items() if key != name}
    with pytest.raises(ModelError, match=rf"lack 1 tensors, among them {name}"):
        load_swiftkv(write(tmp_path / "short", weights))


def test_a_tensor_that_the_layout_does_not_have_is_named(tmp_path):
    """A trained projection that would be ignored means another layout, here another group size."""
    with pytest.raises(ModelError, match=r"unknown 4 tensors, among them model\.layers\.4\.self_attn\.k_proj_swiftkv"):
        load_swiftkv(write(tmp_path / "groups", random_weights(1), key_value_group_size=2))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"num_key_value_layers": None}, "num_key_value_layers None"),
        ({"num_key_value_layers": LAYERS}, "expected 1 to 6"),
        ({"key_value_group_size": 0}, "key_value_group_size 0"),
        ({"kv_sharing_map": {"4": 3}}, "kv_sharing_map"),
        ({"mlp_tuning_enabled": True}, "mlp_tuning_enabled"),
    ],
)
def test_a_configuration_of_another_layout_is_refused(tmp_path, changed, message):
    """One sentence that names the setting."""
    with pytest.raises(ModelError, match=message):
        load_swiftkv(write(tmp_path / "other", random_weights(1), **changed))


def test_without_the_original_late_projections_only_swiftkvs_rule_runs(tmp_path, whole, prompt):
    """A serving export still gives the same logits; asking it for exact rows is refused."""
    weights = {
        name: value for name, value in random_weights(1).items()
        if not any(f"layers.{layer}.self_attn.{part}_proj.weight" in name for layer in range(3, 7) for part in "qkv")
    }  # fmt: skip
    model = load_swiftkv(write(tmp_path / "export", weights))
    assert torch.equal(model(prompt(30)).logits, whole(prompt(30)).logits)
    with pytest.raises(ModelError, match="only SwiftKV's own projections"):
        LlamaSwiftKVAdapter(model, "original")


def test_a_checkpoint_loads_like_any_other_model(tmp_path, whole, prompt):
    """Through the loader that knows no configuration of ours, whatever the training code's own switch says."""
    folder = tmp_path / "whole"
    write(folder, random_weights(1), swiftkv=False)
    core = Tokenizer(models.WordLevel({f"w{number}": number for number in range(90)}, unk_token="w0"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=core, unk_token="w0").save_pretrained(folder)
    loaded = load_any(str(folder))
    assert isinstance(loaded.adapter, LlamaSwiftKVAdapter)
    assert loaded.architecture["num_key_value_layers"] == SPLIT
    found = loaded.adapter.logits(run_exact(loaded.adapter, prompt(30)).hidden)
    assert torch.equal(found, whole(prompt(30)).logits)
    assert torch.equal(loaded.network(prompt(30)).logits, found)


def test_the_models_own_switch_gives_stock_llama(whole, prompt):
    """``config.swiftkv`` off is the original model in ``forward`` too, bit for bit."""
    model, ids = whole, prompt(40)
    original = LlamaSwiftKVAdapter(model, "original")
    on = model(ids).logits
    model.config.swiftkv = False
    off = model(ids).logits
    assert torch.equal(off, original.logits(run_exact(original, ids).hidden))
    assert not torch.equal(off, on)


@pytest.mark.parametrize("split", [SPLIT - 1, SPLIT + 1])
def test_another_split_is_refused(whole, split):
    """The projections were trained for one split state."""
    with pytest.raises(ConfigError, match="can only be split at 3"):
        adapter_for(whole).require_split(split)
    adapter_for(whole).require_split(SPLIT)
