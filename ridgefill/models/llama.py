"""The Llama family: pre-norm decoder, rotary grouped-query attention, no QK-norm (Llama 3, SmolLM2)."""

from __future__ import annotations

from torch import Tensor
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from ridgefill.models.attention import AttentionAdapter


class LlamaAdapter(AttentionAdapter):
    """Wraps a stock ``LlamaForCausalLM``."""

    family = "llama"
    qk_norm = False

    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """See ``AttentionAdapter.rotate``."""
        rotated: Tensor = apply_rotary_pos_emb(heads, heads, *rotary)[1]
        return rotated
