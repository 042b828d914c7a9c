"""Sizes of models: read from transformers' configurations, checked, and what of them is counted."""

import pytest
from pydantic import ValidationError
from transformers import LlamaConfig, Qwen3_5TextConfig, Qwen4ExpTextConfig

from ridgefill.config import cost_geometry, load_model
from ridgefill.cost import geometry_of
from ridgefill.errors import ConfigError
from ridgefill.models.sizes import sizes_of
from ridgefill.sizes import ExpertGeometry, IndexerGeometry, ModelGeometry, NgramGeometry, RecurrentGeometry

SIZES = {"layers": 6, "hidden": 32, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 64}
SIZES |= {"vocab": 97, "context": 512}
DELTA = {"key_heads": 2, "value_heads": 4, "key_dim": 8, "value_dim": 12, "conv_kernel": 4}


def test_a_configured_model_has_the_sizes_that_its_own_configuration_states():
    """Llama-3.1-8B and Qwen3.5-9B, from transformers' configurations with the published values."""
    llama = LlamaConfig(
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        intermediate_size=14336,
        vocab_size=128256,
        max_position_embeddings=131072,
    )
    assert sizes_of(llama) == load_model("llama-3.1-8b").geometry
    hybrid = Qwen3_5TextConfig(
        hidden_size=4096,
        num_hidden_layers=32,
        num_attention_heads=16,
        num_key_value_heads=4,
        head_dim=256,
        intermediate_size=12288,
        vocab_size=248320,
        max_position_embeddings=262144,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )
    assert sizes_of(hybrid) == load_model("qwen3.5-9b").geometry


def test_flash_next_sizes_are_all_read():
    """Streams, experts, indexer, n-grams, and every fourth layer of attention."""
    config = Qwen4ExpTextConfig(
        num_hidden_layers=8,
        ple_layer_ids=[2],
        eos_token_id=1,
        indexer_n_heads=2,
        indexer_kv_heads=1,
        indexer_head_dim=256,
        indexer_budget=64,
        indexer_compress_ratio=16,
    )
    sizes = sizes_of(config)
    assert sizes.recurrent.attention_every == 4
    assert [sizes.attends(layer) for layer in range(8)] == [False, False, False, True] * 2
    assert (sizes.streams.count, sizes.streams.rank) == (4, 320)
    assert (sizes.experts.count, sizes.experts.per_token, sizes.experts.shared) == (512, 10, 512)
    assert (sizes.indexer.budget, sizes.indexer.block) == (64, 16)
    assert (sizes.ngrams.layers, sizes.ngrams.features) == ((1,), 2048)
    assert geometry_of(sizes, "qwen4_exp").map_row() == 4 * 2048 * 2048


def test_sizes_that_a_model_does_not_have_are_not_written():
    """A configuration from before they could be given reads and writes the same."""
    dense = load_model("llama-3.1-8b").geometry.model_dump(mode="json")
    assert {"experts", "streams", "indexer", "ngrams"} & set(dense) == set()
    hybrid = load_model("qwen3.5-9b").geometry.model_dump(mode="json")
    assert set(hybrid["recurrent"]) == {"attention_every", *DELTA}


def test_layers_of_attention_are_given_one_way():
    """Every so many, or by number."""
    assert RecurrentGeometry(**DELTA, attention_layers=(3, 5)).attends(5)
    assert not RecurrentGeometry(**DELTA, attention_layers=(3, 5)).attends(4)
    for both in ({}, {"attention_every": 4, "attention_layers": (3,)}):
        with pytest.raises(ValidationError, match="either attention_every or attention_layers"):
            RecurrentGeometry(**DELTA, **both)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"recurrent": {**DELTA, "attention_layers": [3, 6]}}, r"recurrent\.attention_layers names a layer outside"),
        ({"ngrams": NgramGeometry(layers=(1,), features=8, conv_kernel=4)}, "expected streams too"),
        ({"heads": 3}, "must be a multiple of kv_heads"),
    ],
)
def test_sizes_that_cannot_be_are_refused(change, message):
    """Layers outside the model, n-grams without streams."""
    with pytest.raises(ValidationError, match=message):
        ModelGeometry(**{**SIZES, **change})


def test_experts_and_indexers_that_cannot_be_are_refused():
    """More experts a row than there are, dense layers without a width, blocks that the budget does not hold."""
    with pytest.raises(ValidationError, match="must not exceed count"):
        ExpertGeometry(count=4, per_token=5, intermediate=8)
    with pytest.raises(ValidationError, match="together or not at all"):
        ExpertGeometry(count=4, per_token=2, intermediate=8, dense_layers=(1,))
    with pytest.raises(ValidationError, match="multiple of block"):
        IndexerGeometry(heads=1, head_dim=8, budget=10, block=4)


def test_a_family_without_its_sizes_is_not_counted():
    """A hybrid without recurrent layers, and a plain family with them."""
    with pytest.raises(ConfigError, match="expected their sizes as `recurrent`"):
        geometry_of(ModelGeometry(**SIZES), "qwen3_5")
    recurrent = RecurrentGeometry(**DELTA, attention_every=3)
    with pytest.raises(ConfigError, match="attention layers and MLPs only"):
        geometry_of(ModelGeometry(**SIZES, recurrent=recurrent), "llama")


def test_gated_attention_projects_its_queries_twice_as_wide():
    """Qwen3.5-9B: 4,096 wide queries and as many gates, and one layer of attention in four."""
    g = cost_geometry(load_model("qwen3.5-9b"))
    assert g.layer(3).writes + g.layer(3).rest == 4096 * (2 * 4096 + 2 * 1024 + 4096)
    assert [g.layer(layer).scan is None for layer in range(4)] == [False, False, False, True]
