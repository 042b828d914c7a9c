"""The Gemma 3 family (text): QK-norm, and layers that see only a window, with a rotary table of their own."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from transformers.models.gemma3.modeling_gemma3 import apply_rotary_pos_emb

from ridgefill.models.attention import AttentionAdapter


class Gemma3Adapter(AttentionAdapter):
    """Wraps a stock ``Gemma3ForCausalLM``."""

    family = "gemma3"
    qk_norm = True

    def rotary(self, positions: Tensor) -> Mapping[str, tuple[Tensor, Tensor]]:
        """See ``Adapter.rotary``: windowed layers turn by another base."""
        like = torch.empty(0, device=self.device, dtype=self.dtype)
        return {kind: self.decoder.rotary_emb(like, positions[None], kind) for kind in dict.fromkeys(self.kinds)}

    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """See ``AttentionAdapter.rotate``."""
        rotated: Tensor = apply_rotary_pos_emb(heads, heads, *rotary)[1]
        return rotated

    def logits(self, x: Tensor) -> Tensor:
        """See ``Adapter.logits``; soft-capped where the model's configuration asks for it."""
        out = super().logits(x)
        cap = self.model.config.final_logit_softcapping
        return out if cap is None else torch.tanh(out / cap) * cap
