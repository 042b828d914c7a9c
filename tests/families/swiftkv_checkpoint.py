"""A SwiftKV checkpoint written by hand in its published layout: every tensor by name and shape, random values."""

import functools
import json

import torch
from safetensors.torch import save_file

VOCABULARY, LAYERS, SPLIT = 97, 7, 3
CONFIG = {
    "architectures": ["LlamaSwiftKVForCausalLM"],
    "model_type": "llama_swiftkv",
    "num_hidden_layers": LAYERS,
    "num_key_value_layers": SPLIT,
    "key_value_group_size": 1,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "bos_token_id": None,
    "eos_token_id": None,
    "torch_dtype": "float32",
}


def shapes(config):
    """Every tensor of the published layout and its shape; 1-d ones are norms."""
    hidden, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    queries, keys = (config[name] * config["head_dim"] for name in ("num_attention_heads", "num_key_value_heads"))
    found = {
        "model.embed_tokens.weight": (vocabulary, hidden),
        "model.norm.weight": (hidden,),
        "model.norm_swiftkv.weight": (hidden,),
        "lm_head.weight": (vocabulary, hidden),
    }
    for layer in range(config["num_hidden_layers"]):
        parts = {
            "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
            "self_attn.q_proj": (queries, hidden), "self_attn.k_proj": (keys, hidden),
            "self_attn.v_proj": (keys, hidden), "self_attn.o_proj": (hidden, queries),
            "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        }  # fmt: skip
        late = layer - config["num_key_value_layers"]
        if late >= 0:
            parts["self_attn.q_proj_swiftkv"] = (queries, hidden)
        if late >= 0 and late % config["key_value_group_size"] == 0:
            parts |= {"self_attn.k_proj_swiftkv": (keys, hidden), "self_attn.v_proj_swiftkv": (keys, hidden)}
        found |= {f"model.layers.{layer}.{part}.weight": shape for part, shape in parts.items()}
    return found


@functools.cache
def random_weights(group):
    """Seeded tensors of the layout; wide enough that attention is far from uniform."""
    generator = torch.Generator().manual_seed(7)
    return {
        name: torch.randn(shape, generator=generator) * 0.2 + (len(shape) == 1)
        for name, shape in shapes(CONFIG | {"key_value_group_size": group}).items()
    }


def write(folder, weights, **changed):
    """A checkpoint folder; returns its name."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG | changed))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return str(folder)
