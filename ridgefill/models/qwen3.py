"""The Qwen3 family: as Llama, with queries and keys normed per head."""

from __future__ import annotations

from torch import Tensor
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from ridgefill.models.attention import AttentionAdapter


class Qwen3Adapter(AttentionAdapter):
    """Wraps a stock ``Qwen3ForCausalLM``."""

    family = "qwen3"
    qk_norm = True

    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """See ``AttentionAdapter.rotate``."""
        rotated: Tensor = apply_rotary_pos_emb(heads, heads, *rotary)[1]
        return rotated
