"""The Qwen3.5 family (text): three Gated DeltaNet layers to one of gated attention with partial rotary."""

from __future__ import annotations

from torch import Tensor
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    apply_rotary_pos_emb,
    causal_conv1d_fn,
    torch_chunk_gated_delta_rule,
)

from ridgefill.models.recurrent import DeltaRule, HybridAdapter


class Qwen35Adapter(HybridAdapter):
    """Wraps a stock ``Qwen3_5ForCausalLM``, or the text part of a ``Qwen3_5ForConditionalGeneration``."""

    family = "qwen3_5"
    rule = DeltaRule(causal_conv1d_fn, torch_chunk_gated_delta_rule)

    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """See ``AttentionAdapter.rotate``: only the first features of a head turn."""
        rotated: Tensor = apply_rotary_pos_emb(heads, heads, *rotary)[1]
        return rotated
