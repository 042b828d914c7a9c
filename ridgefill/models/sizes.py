"""Sizes of a loaded model, read from its transformers configuration. Nothing here imports torch."""

from __future__ import annotations

from typing import Any

from ridgefill.sizes import (
    ExpertGeometry,
    IndexerGeometry,
    ModelGeometry,
    NgramGeometry,
    RecurrentGeometry,
    StreamGeometry,
    WindowGeometry,
)


def sizes_of(config: Any) -> ModelGeometry:
    """The sizes that a text configuration of any supported family states, so that its work can be counted.

    config: an object with the attributes of a transformers configuration (``get_text_config()`` of a multimodal one).
    What a family does not have is None.
    """
    heads = int(config.num_attention_heads)
    return ModelGeometry(
        layers=int(config.num_hidden_layers),
        hidden=int(config.hidden_size),
        heads=heads,
        kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
        head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
        intermediate=_intermediate(config),
        vocab=int(config.vocab_size),
        context=int(config.max_position_embeddings),
        recurrent=_recurrent(config),
        windowed=_windowed(config),
        experts=_experts(config),
        streams=_streams(config),
        indexer=_indexer(config),
        ngrams=_ngrams(config),
    )


def _intermediate(config: Any) -> int:
    """Width of the MLP that a row passes; with experts, of those it is routed to and the shared one together."""
    if not getattr(config, "num_experts", None):
        return int(config.intermediate_size)
    return int(config.num_experts_per_tok) * int(config.moe_intermediate_size) + _shared(config)


def _shared(config: Any) -> int:
    return int(getattr(config, "shared_expert_intermediate_size", None) or 0)


def _kinds(config: Any) -> list[str]:
    return list(getattr(config, "layer_types", None) or ["full_attention"] * int(config.num_hidden_layers))


def _recurrent(config: Any) -> RecurrentGeometry | None:
    kinds = _kinds(config)
    if "linear_attention" not in kinds:
        return None
    attention = tuple(layer for layer, kind in enumerate(kinds) if kind != "linear_attention")
    every = attention[0] + 1 if attention else 0
    regular = bool(every) and attention == tuple(range(every - 1, len(kinds), every))
    return RecurrentGeometry(
        attention_every=every if regular else None,
        attention_layers=None if regular else attention,
        key_heads=int(config.linear_num_key_heads),
        value_heads=int(config.linear_num_value_heads),
        key_dim=int(config.linear_key_head_dim),
        value_dim=int(config.linear_value_head_dim),
        conv_kernel=int(config.linear_conv_kernel_dim),
    )


def _windowed(config: Any) -> WindowGeometry | None:
    kinds = _kinds(config)
    if "sliding_attention" not in kinds:
        return None
    full = tuple(layer for layer, kind in enumerate(kinds) if kind != "sliding_attention")
    return WindowGeometry(size=int(config.sliding_window), full_layers=full)


def _experts(config: Any) -> ExpertGeometry | None:
    if not getattr(config, "num_experts", None):
        return None
    named = getattr(config, "mlp_only_layers", None) or ()
    step = int(getattr(config, "decoder_sparse_step", None) or 1)
    dense = tuple(layer for layer in range(int(config.num_hidden_layers)) if layer in named or (layer + 1) % step)
    return ExpertGeometry(
        count=int(config.num_experts),
        per_token=int(config.num_experts_per_tok),
        intermediate=int(config.moe_intermediate_size),
        shared=_shared(config),
        dense_layers=dense,
        dense=int(config.intermediate_size) if dense else 0,
    )


def _streams(config: Any) -> StreamGeometry | None:
    count = getattr(config, "hc_count", None)
    return StreamGeometry(count=int(count), rank=int(config.hc_lowrank)) if count else None


def _indexer(config: Any) -> IndexerGeometry | None:
    heads = getattr(config, "indexer_n_heads", None)
    if not heads:
        return None
    return IndexerGeometry(
        heads=int(heads),
        head_dim=int(config.indexer_head_dim),
        budget=int(config.indexer_budget),
        block=int(config.indexer_compress_ratio),
    )


def _ngrams(config: Any) -> NgramGeometry | None:
    numbers = getattr(config, "ple_layer_ids", None)
    if not numbers:
        return None
    return NgramGeometry(
        layers=tuple(int(number) - 1 for number in numbers),
        features=int(config.ple_embed_dim),
        conv_kernel=int(config.ple_conv_kernel_size),
    )
