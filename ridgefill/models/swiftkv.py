"""The network of SwiftKV checkpoints (Qiao et al., 2025, arXiv:2410.03960), made of stock Llama modules.

transformers has no such architecture. A checkpoint (``model_type: llama_swiftkv``) holds a whole Llama model and beside
it what distillation trained, with ``S = num_key_value_layers`` and layers ``l >= S`` late:

* ``model.norm_swiftkv.weight``: one norm for all late layers, applied to the input of layer ``S``, the split state;
* ``model.layers.<l>.self_attn.q_proj_swiftkv.weight``: late queries, from the layer's own normed input;
* ``model.layers.<l>.self_attn.{k,v}_proj_swiftkv.weight``: late keys and values, from the normed split state; only in
  the first layer of every ``key_value_group_size`` late layers, whose other layers use the same ones.

So no late key or value depends on a late layer, and a prompt's rows need the late layers only where an output is read.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, LlamaModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaDecoderLayer,
    LlamaRMSNorm,
    apply_rotary_pos_emb,
    eager_attention_forward,
)

from ridgefill.errors import ModelError

MODEL_TYPE = "llama_swiftkv"
NOT_SUPPORTED = ("kv_sharing_map", "mlp_tuning_enabled", "layernorm_tuning_enabled")
"""Settings of later, unreleased layouts that change which layer reads what."""


class LlamaSwiftKVConfig(LlamaConfig):
    """A Llama configuration with the split ``num_key_value_layers`` and the size of the groups that share keys.

    swiftkv: whether the model's own ``forward`` follows SwiftKV's rule; False gives the original Llama model.
    """

    model_type = MODEL_TYPE

    num_key_value_layers: int | None = None
    key_value_group_size: int = 1
    swiftkv: bool = True

    def leader(self, layer: int) -> int:
        """The late layer whose trained key and value projections ``layer`` uses."""
        return layer - (layer - split_of(self)) % self.key_value_group_size


def split_of(config: Any) -> int:
    """First late layer. Raises ``ModelError`` for a configuration that is not of the published layout."""
    split, layers, size = config.num_key_value_layers, config.num_hidden_layers, config.key_value_group_size
    if not isinstance(split, int) or not 0 < split < layers:
        raise ModelError(f"found num_key_value_layers {split} in the model's config.json; expected 1 to {layers - 1}")
    if not isinstance(size, int) or size < 1:
        raise ModelError(f"found key_value_group_size {size} in the model's config.json; expected 1 or more")
    if found := [name for name in NOT_SUPPORTED if getattr(config, name, None)]:
        raise ModelError(
            f"the model's config.json sets {', '.join(found)}, a layout that is not supported; expected the released "
            "one, with num_key_value_layers and key_value_group_size only"
        )
    return split


class SharedRows(dict[int, tuple[Tensor, Tensor]]):
    """Rotated keys and values ``[B, kv_heads, rows, head_dim]`` by late layer, as one pass sees them."""

    def __init__(self, model: LlamaSwiftKVModel) -> None:
        super().__init__()
        self.model = model

    def fill(self, state: Tensor, rotary: tuple[Tensor, Tensor], cache: Any) -> None:
        """Make those of every late layer from the split state ``[B, R, hidden]``, into ``cache`` unless None."""
        for layer in range(self.model.split, len(self.model.layers)):
            key, value = (heads(part, self.model.head_dim) for part in self.model.shared_writes(layer, state))
            key = apply_rotary_pos_emb(key, key, *rotary)[1]
            self[layer] = (key, value) if cache is None else cache.update(key, value, layer)


class SwiftKVAttention(LlamaAttention):
    """Attention of a late layer: SwiftKV's when the keys and values to read are given, else the original one."""

    def __init__(self, config: LlamaSwiftKVConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.q_proj_swiftkv = _like(self.q_proj)
        if config.leader(layer_idx) == layer_idx:
            self.k_proj_swiftkv, self.v_proj_swiftkv = _like(self.k_proj), _like(self.v_proj)

    def forward(
        self,
        hidden_states: Tensor,
        position_embeddings: tuple[Tensor, Tensor],
        attention_mask: Tensor | None = None,
        cache: Any = None,
        shared: dict[int, tuple[Tensor, Tensor]] | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Output ``[B, R, hidden]`` and attention weights, None where the kernel keeps none."""
        if shared is None:
            stock: tuple[Tensor, Tensor | None] = super().forward(
                hidden_states, position_embeddings, attention_mask, cache, **kwargs
            )
            return stock
        query = heads(self.q_proj_swiftkv(hidden_states), self.head_dim)
        query = apply_rotary_pos_emb(query, query, *position_embeddings)[0]
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager_attention_forward)
        key, value = shared[self.layer_idx]
        out, weights = attend(self, query, key, value, attention_mask, dropout=0.0, scaling=self.scaling, **kwargs)
        return self.o_proj(out.flatten(2)), weights


class SwiftKVDecoderLayer(LlamaDecoderLayer):
    """A late layer: the stock one around the attention above."""

    def __init__(self, config: LlamaSwiftKVConfig, layer_idx: int) -> None:
        super().__init__(config, layer_idx)
        self.self_attn = SwiftKVAttention(config, layer_idx)

    def forward(self, hidden_states: Tensor, *, shared: SharedRows | None = None, **kwargs: Any) -> Tensor:
        """The stock layer. The first late one meets the split state, so it makes the keys and values of them all."""
        if shared is not None and self.self_attn.layer_idx not in shared:
            shared.fill(hidden_states, kwargs["position_embeddings"], kwargs.get("cache"))
        out: Tensor = super().forward(hidden_states, shared=shared, **kwargs)
        return out


class LlamaSwiftKVModel(LlamaModel):
    """The stock decoder with late layers that can follow SwiftKV's rule. split: the first of them."""

    config_class = LlamaSwiftKVConfig

    def __init__(self, config: LlamaSwiftKVConfig) -> None:
        super().__init__(config)
        self.split = split_of(config)
        self.head_dim = int(self.layers[0].self_attn.head_dim)
        for layer in range(self.split, len(self.layers)):
            self.layers[layer] = SwiftKVDecoderLayer(config, layer)
        self.norm_swiftkv = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_init()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """See ``LlamaModel.forward``; SwiftKV's rule unless ``config.swiftkv`` is False."""
        return super().forward(*args, **({"shared": SharedRows(self)} if self.config.swiftkv else {}), **kwargs)

    def shared_writes(self, layer: int, state: Tensor) -> tuple[Tensor, Tensor]:
        """Key before rotary and value of late ``layer``, each ``[B, R, kv_heads * head_dim]``, from the split state."""
        block = self.layers[self.config.leader(layer)].self_attn
        normed = self.norm_swiftkv(state)
        return block.k_proj_swiftkv(normed), block.v_proj_swiftkv(normed)


class LlamaSwiftKVForCausalLM(LlamaForCausalLM):
    """A SwiftKV checkpoint as a causal language model; ``generate`` and caches work as on any other."""

    config_class = LlamaSwiftKVConfig

    def __init__(self, config: LlamaSwiftKVConfig) -> None:
        super().__init__(config)
        self.model = LlamaSwiftKVModel(config)
        self.post_init()


def register() -> None:
    """Make transformers' Auto classes know the architecture. Called by the loaders, never on import."""
    AutoConfig.register(MODEL_TYPE, LlamaSwiftKVConfig, exist_ok=True)
    AutoModelForCausalLM.register(LlamaSwiftKVConfig, LlamaSwiftKVForCausalLM, exist_ok=True)


def load_swiftkv(source: str, dtype: torch.dtype | str = "auto") -> LlamaSwiftKVForCausalLM:
    """A SwiftKV checkpoint, config.json and safetensors, as a model that follows SwiftKV's rule.

    Some serving exports drop the original late query, key and value projections; without them the model still runs,
    but exact rows cannot (``LlamaSwiftKVAdapter``). Raises ``ModelError`` naming tensors that are missing or that the
    layout does not have.
    """
    config = LlamaSwiftKVConfig.from_pretrained(source)
    split_of(config)
    # The flag in a checkpoint is a switch of the code that trained it: there, False shows the teacher.
    config.swiftkv = True
    model, report = LlamaSwiftKVForCausalLM.from_pretrained(
        source, config=config, dtype=dtype, attn_implementation="sdpa", output_loading_info=True, use_safetensors=True
    )
    absent = set(report["missing_keys"])
    originals = {name for name, _ in model.named_parameters() if _is_late_original(name, model.model.split)}
    if originals <= absent:
        absent -= originals
        for block in model.model.layers[model.model.split :]:
            block.self_attn.q_proj = block.self_attn.k_proj = block.self_attn.v_proj = None
    for what, names in (("lack", absent), ("have unknown", report["unexpected_keys"])):
        if names:
            raise ModelError(
                f"the weights in {source} {what} {len(names)} tensors, among them {sorted(names)[0]}; expected the "
                f"published SwiftKV layout with split {model.model.split} and groups of {config.key_value_group_size}: "
                "fetch the model's files again, or correct its config.json"
            )
    return model


def _is_late_original(name: str, split: int) -> bool:
    """Whether a parameter is a late layer's projection that SwiftKV's own rule does not use."""
    parts = name.split(".")
    return parts[-2] in ("q_proj", "k_proj", "v_proj") and int(parts[2]) >= split


def _like(linear: nn.Linear) -> nn.Linear:
    return nn.Linear(linear.in_features, linear.out_features, bias=linear.bias is not None)


def heads(flat: Tensor, head_dim: int) -> Tensor:
    """``[B, R, heads * head_dim]`` to ``[B, heads, R, head_dim]``."""
    return flat.unflatten(-1, (-1, head_dim)).transpose(1, 2)
