"""The Qwen3-Next family: as Qwen3.5, with experts, and with a recurrent block's projections fused per key head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3_next.modeling_qwen3_next import (
    apply_rotary_pos_emb,
    causal_conv1d_fn,
    torch_chunk_gated_delta_rule,
)

from ridgefill.models.recurrent import DeltaRule, HybridAdapter


class FusedDeltaRule(DeltaRule):
    """The projections come as one matrix for query, key, value and gate, and one for ``b`` and ``a``.

    Both interleave their parts by key head, so the stock module takes them apart; filled rows' gates come along unused.
    """

    def inputs(self, block: Any, normed: Tensor) -> dict[str, Tensor]:
        """See ``DeltaRule.inputs``."""
        return self._split(block, normed)[0]

    def projected(self, block: Any, normed: Tensor, exact: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """See ``DeltaRule.projected``."""
        fed, gate = self._split(block, normed)
        return fed, gate[:, exact]

    def _split(self, block: Any, normed: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        parts = block.fix_query_key_value_ordering(block.in_proj_qkvz(normed), block.in_proj_ba(normed))
        query, key, value, gate, b, a = parts
        qkv = torch.cat([part.flatten(-2) for part in (query, key, value)], dim=-1)
        return {"qkv": qkv, "b": b, "a": a}, gate.flatten(-2)


class Qwen3NextAdapter(HybridAdapter):
    """Wraps a stock ``Qwen3NextForCausalLM``."""

    family = "qwen3_next"
    rule = FusedDeltaRule(causal_conv1d_fn, torch_chunk_gated_delta_rule)

    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """See ``AttentionAdapter.rotate``: only the first features of a head turn."""
        rotated: Tensor = apply_rotary_pos_emb(heads, heads, *rotary)[1]
        return rotated
