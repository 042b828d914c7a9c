"""Tiny random models, one function per family, from transformers' own configurations: no download.

``FAMILIES[name](dtype)`` gives a stock model in evaluation mode. Weights are seeded and wide enough that attention is
far from uniform, and every norm's weight is moved from its neutral value, so that a norm left out shows.
"""

import functools

import torch
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3NextConfig,
    Qwen3NextForCausalLM,
    Qwen4ExpForCausalLM,
    Qwen4ExpTextConfig,
)

VOCABULARY = 97
WINDOW = 24
COMMON = {
    "num_hidden_layers": 6,
    "hidden_size": 32,
    "intermediate_size": 64,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    # With the default 0.02 attention is close to uniform and a wrong mask hardly shows.
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}


def settled(model, dtype, seed):
    """The model in ``dtype`` with every norm weight moved by a seeded amount, as a trained model's are."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name and weight.ndim == 1:
                weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return model.to(dtype).eval()


@functools.cache
def llama(dtype=torch.float32):
    """Grouped-query attention, four query heads to one of keys, of a width that is not theirs together."""
    torch.manual_seed(11)
    config = LlamaConfig(**COMMON, num_attention_heads=8, num_key_value_heads=2, head_dim=8)
    return settled(LlamaForCausalLM(config), dtype, 11)


@functools.cache
def qwen3(dtype=torch.float32):
    """QK-norm; as many key as query heads, whose width together is not the model's."""
    torch.manual_seed(12)
    config = Qwen3Config(**COMMON, num_attention_heads=4, num_key_value_heads=4, head_dim=16)
    return settled(Qwen3ForCausalLM(config), dtype, 12)


@functools.cache
def gemma3(dtype=torch.float32):
    """QK-norm, windows of 24 below and above the split, one key head, its own scaling, capped logits."""
    torch.manual_seed(13)
    sliding, full = "sliding_attention", "full_attention"
    config = Gemma3TextConfig(
        **COMMON,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=16,
        query_pre_attn_scalar=24,
        sliding_window=WINDOW,
        layer_types=[sliding, full, sliding, sliding, full, sliding],
        rope_parameters={
            full: {"rope_type": "linear", "factor": 4.0, "rope_theta": 50_000.0},
            sliding: {"rope_type": "default", "rope_theta": 1_000.0},
        },
        final_logit_softcapping=30.0,
    )
    return settled(Gemma3ForCausalLM(config), dtype, 13)


@functools.cache
def qwen4_exp(dtype=torch.float32):
    """Four streams, recurrent and sparse layers on both sides of the split, experts, an n-gram layer at the bottom.

    Sparse rows see 16 of their tokens, in blocks of four; recurrent keys and values differ in width.
    """
    torch.manual_seed(16)
    linear, indexed = "linear_attention", "indexed_attention"
    left_out = ("intermediate_size", "eos_token_id", "initializer_range")
    config = Qwen4ExpTextConfig(
        **{name: value for name, value in COMMON.items() if name not in left_out},
        # Norms, gates and picks in a row: with 0.2, stock's own fp32 is 1e-4 off its fp64, with 0.1 it is 5e-6.
        initializer_range=0.1,
        eos_token_id=VOCABULARY - 1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        layer_types=[linear, linear, linear, indexed, linear, indexed],
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 1_000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [2, 1, 1],
        },
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        linear_key_head_dim=8,
        linear_value_head_dim=12,
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        hc_count=4,
        hc_lowrank=8,
        ple_layer_ids=[2],
        ple_embed_dim=16,
        heads_per_ngram=2,
        ngram_vocab_size_base=50,
        make_ngram_vocab_size_divisible_by=8,
        split_ngram_parts=2,
        indexer_n_heads=2,
        indexer_kv_heads=1,
        indexer_head_dim=16,
        indexer_budget=16,
        indexer_compress_ratio=4,
    )
    return settled(Qwen4ExpForCausalLM(config), dtype, 16)


HYBRID = {
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 12,
}
"""Three recurrent layers to one of attention; key and value widths differ, so that a missing transpose shows."""


def remembering(model, seed):
    """The model with recurrent layers that remember tens of rows; stock random ones forget at once."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("A_log"):
                weight.copy_((0.01 + 0.3 * torch.rand(weight.shape, generator=generator)).log())
            elif name.endswith("dt_bias"):
                weight.copy_(torch.randn(weight.shape, generator=generator))
    return model


@functools.cache
def qwen3_5(dtype=torch.float32):
    """Gated DeltaNet and gated attention, half of each head turned by rotary."""
    torch.manual_seed(14)
    rotary = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]}
    config = Qwen3_5TextConfig(**COMMON | HYBRID, rope_parameters=rotary)
    return settled(remembering(Qwen3_5ForCausalLM(config), 14), dtype, 14)


@functools.cache
def qwen3_next(dtype=torch.float32):
    """As ``qwen3_5`` with fused projections and experts in every layer but one."""
    torch.manual_seed(15)
    config = Qwen3NextConfig(
        **COMMON | HYBRID,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 0.5},
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
        mlp_only_layers=[5],
    )
    return settled(remembering(Qwen3NextForCausalLM(config), 15), dtype, 15)


FAMILIES = {
    "llama": llama,
    "qwen3": qwen3,
    "gemma3": gemma3,
    "qwen3_5": qwen3_5,
    "qwen3_next": qwen3_next,
    "qwen4_exp": qwen4_exp,
}
SPLITS = {"qwen4_exp": 4, "qwen3_next": 4}
"""Split of a family's tests where it is not 3, the middle of six layers."""
