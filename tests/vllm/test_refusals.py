"""What cannot be filled is refused when the server starts, in one sentence."""

import json
import shutil

import pytest


def test_a_setting_that_is_none(engines):
    """A field's name misspelt."""
    assert "'tial'; expected only maps, tail" in engines.refused({"maps": "m", "tial": 3})


def test_maps_that_are_not_there(engines, tmp_path):
    """And what to give."""
    assert "does not exist; give a folder of maps" in engines.refused(str(tmp_path / "nothing"))


def test_maps_of_another_model(engines, tmp_path):
    """A model of another width, its configuration alone: weights are never read."""
    shutil.copytree(engines.folders[0], tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps(config | {"num_key_value_heads": 1}))
    found = engines.refused(str(engines.folders[1]), model=str(tmp_path / "other"))
    assert "were fitted for kv_heads 2, but the model has 1; use maps fitted for this model" in found


def test_another_split_than_was_meant(engines):
    """The maps' own is named."""
    served = {"maps": str(engines.folders[1]), "split": 4}
    assert "split 4 was asked for, but the maps in" in engines.refused(served)


def test_another_architecture(engines, tmp_path):
    """Nothing would be filled, so the server does not start."""
    shutil.copytree(engines.folders[0], tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    changed = config | {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}
    (tmp_path / "other" / "config.json").write_text(json.dumps(changed))
    found = engines.refused(str(engines.folders[1]), model=str(tmp_path / "other"))
    assert "the model is a Qwen2ForCausalLM, and RidgeFill serves LlamaForCausalLM, Qwen3ForCausalLM, " in found


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ({"kv_cache_dtype": "fp8"}, "has a quantised cache"),
        ({"load_format": "dummy"}, "loads weights in a way other than"),
        ({"enable_lora": True}, "has LoRA adapters"),
    ],
)
def test_servers_that_filling_was_not_made_for(engines, arguments, about):
    """Each names what it is, and that the variable can be unset."""
    found = engines.refused(str(engines.folders[1]), **arguments)
    assert about in found
    assert "unset RIDGEFILL_VLLM" in found


def test_another_version_of_the_engine():
    """Only the one whose parts are subclassed."""
    from ridgefill.errors import ConfigError
    from ridgefill.vllm_plugin.fitting import require_engine

    require_engine("0.32.0")
    require_engine("0.32.1+cpu")
    for version in ("0.33.0", "0.3.2", "1.32.0"):
        with pytest.raises(ConfigError, match=f"vLLM is {version}, and this version of RidgeFill fills in vLLM 0.32"):
            require_engine(version)
