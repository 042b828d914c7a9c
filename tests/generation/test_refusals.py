"""What cannot be filled is one clear sentence, before anything runs or changes."""

import copy
from types import SimpleNamespace

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.cache_utils import DynamicCache, StaticCache

from ridgefill.errors import ConfigError, MapError, ModelError, TextError
from ridgefill.generation.context import filling
from ridgefill.maps import RidgeMaps
from ridgefill.pretrained import RidgeFillMaps

TAIL = 20

OPTIONS = [
    ({"tail": 0}, "tail is 0; expected a number of tokens, at least 1"),
    ({"tail": -4}, "tail is -4"),
    ({"tail": 2.5}, "tail is 2.5"),
    ({"tail": True}, "tail is True"),
    ({"min_filled": 0}, "min_filled is 0"),
    ({"split_layer": "true"}, "split_layer is 'true'; expected 'exact' or 'mapped'"),
    ({"rows": "random"}, "rows is 'random'; expected None, 'attention' or a sequence of positions"),
    ({"rows": [1.5]}, "a sequence of positions"),
    ({"rows": 7}, "a sequence of positions"),
    ({"rows": [-1, 3]}, "position -1; expected positions counted from 0"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options_that_mean_nothing(model_of, maps_of, prompt, options, message):
    """Both ways in refuse them, and the model stays stock."""
    model = model_of("llama")
    maps = maps_of(model)
    with pytest.raises(ConfigError, match=message):
        maps.prefill(model, prompt(50), **options)
    with pytest.raises(ConfigError, match=message), maps.fill(model, **options):
        pass
    assert "forward" not in vars(model)


def test_rows_that_the_prompt_or_the_model_lacks(model_of, maps_of, prompt):
    """A position past the end; a ranking by attention where no layer below the split can rank."""
    model = model_of("llama")
    with pytest.raises(ConfigError, match="position 50, but the prompt has 50 tokens"):
        maps_of(model).prefill(model, prompt(50), tail=TAIL, rows=[2, 50])
    with pytest.raises(ConfigError, match="no layer below split 3 ranks rows by attention"):
        maps_of(model, 3).prefill(model, prompt(50), tail=TAIL, rows="attention")


def unfit(model, change):
    """A copy of the model, changed by ``change``."""
    changed = copy.deepcopy(model)
    change(changed)
    return changed


def as_eager(model):
    model.config._attn_implementation = "eager"


def as_float8(model):
    weight = model.model.layers[4].self_attn.k_proj.weight
    weight.data = weight.data.to(torch.float8_e4m3fn)


def as_split(model):
    model.model.layers[5].to("meta")


MODELS = {
    "training": (lambda model: model.train(), "in training mode, where dropout is random; call model.eval"),
    "eager": (as_eager, "the model uses eager attention; expected sdpa"),
    "float8": (as_float8, "layers.4.self_attn.k_proj has weights of type torch.float8_e4m3fn"),
    "spread": (as_split, "weights are on cpu, meta; expected GPUs or the processor"),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_that_cannot_be_filled(model_of, maps_of, prompt, name):
    """Training mode, other attention, weights that no product takes, weights in several places."""
    change, message = MODELS[name]
    model = unfit(model_of("llama"), change)
    maps = maps_of(model_of("llama"))
    with pytest.raises(ModelError, match=message):
        maps.prefill(model, prompt(50), tail=TAIL)
    with pytest.raises(ModelError, match=message), maps.fill(model, tail=TAIL):
        pass


def test_other_things_than_a_supported_model(model_of, maps_of):
    """The sentence names what was found and what there could be."""
    maps = maps_of(model_of("llama"))
    small = GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=8, n_head=2, vocab_size=9, n_positions=8)).eval()
    with pytest.raises(ModelError, match=r"'gpt2', expected one of .*llama.*docs/add-a-model.md"), maps.fill(small):
        pass
    with pytest.raises(ModelError, match="found a SimpleNamespace; expected a transformers causal"):
        maps.prefill(SimpleNamespace(), torch.ones(1, 3, dtype=torch.int64))


def test_maps_of_another_model_or_split(model_of, maps_of, prompt):
    """Both sides are named; a split needs a layer below it and one from it on."""
    llama, qwen3 = model_of("llama"), model_of("qwen3")
    with pytest.raises(MapError, match=r"family 'llama', but the model has 'qwen3'"), filling(maps_of(llama), qwen3):
        pass
    for split in (0, 6):
        weights = {layer: torch.zeros(32, 32) for layer in range(split, 6)}
        maps = RidgeFillMaps(RidgeMaps(split, weights, {}), maps_of(llama).architecture, {})
        with pytest.raises(ConfigError, match=f"split {split} is outside the model; expected 1 to 5"):
            maps.prefill(llama, prompt(50), tail=TAIL)


def test_caches_that_cannot_take_a_prompt(model_of, maps_of, prompt):
    """One that holds tokens, one of another class, one of other layers."""
    model, ids = model_of("gemma3"), prompt(50)
    maps = maps_of(model)
    held = maps.prefill(model, ids, tail=TAIL).cache
    with pytest.raises(ConfigError, match="already holds 50 tokens; expected an empty one"):
        maps.prefill(model, ids, tail=TAIL, cache=held)
    for cache, message in (
        (StaticCache(config=model.config, max_cache_len=60), "a StaticCache was given; expected an empty DynamicCache"),
        (DynamicCache(), "was not made for the layers of this model"),
    ):
        with pytest.raises(ConfigError, match=message):
            maps.prefill(model, ids, tail=TAIL, cache=cache)


PROMPTS = [
    (torch.ones(5, dtype=torch.int64), None, "expected token ids .batch, tokens."),
    (torch.ones(1, 0, dtype=torch.int64), None, r"prompts of shape \[1, 0\]"),
    (torch.ones(1, 5), None, "type torch.float32"),
    (torch.ones(1, 5, dtype=torch.int64), torch.ones(1, 4), r"shape \[1, 4\]; expected that of the prompts, \[1, 5\]"),
    (torch.ones(1, 5, dtype=torch.int64), torch.tensor([[1, 1, 1, 1, 0]]), "pad on the left"),
    (torch.ones(1, 5, dtype=torch.int64), torch.tensor([[0, 1, 0, 1, 1]]), "pad on the left"),
    (torch.ones(1, 5, dtype=torch.int64), torch.zeros(1, 5), "or a whole prompt"),
]


@pytest.mark.parametrize(("ids", "mask", "message"), PROMPTS)
def test_prompts_that_cannot_be_read(model_of, maps_of, ids, mask, message):
    """Shapes, types, and padding in other places than the left."""
    model = model_of("llama")
    with pytest.raises(TextError, match=message):
        maps_of(model).prefill(model, ids, attention_mask=mask, tail=2)
