"""The Llama family: pre-norm decoder, rotary grouped-query attention, no QK-norm (Llama 3, SmolLM2)."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import LlamaForCausalLM
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

from ridgefill.errors import ModelError
from ridgefill.models.base import Adapter, Rows, causal_mask, view
from ridgefill.models.cache import RowCache


class LlamaAdapter(Adapter):
    """Wraps a stock ``LlamaForCausalLM``; whole layers run the stock modules, so exact rows are stock rows."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        config = model.config
        if config._attn_implementation != "sdpa":
            raise ModelError(
                f"the model uses {config._attn_implementation} attention; expected sdpa, as others ignore a missing "
                "mask or a boolean one. Load it with attn_implementation='sdpa'"
            )
        self.model = model.eval().requires_grad_(False)
        self.layers = int(config.num_hidden_layers)
        self.hidden = int(config.hidden_size)
        self.head_dim = int(getattr(config, "head_dim", None) or self.hidden // config.num_attention_heads)
        self.heads = int(config.num_attention_heads)
        self.kv_heads = int(config.num_key_value_heads)
        self.device, self.dtype = model.device, model.dtype
        self.fingerprint = {
            "family": "llama",
            "layers": self.layers,
            "hidden": self.hidden,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "layer_types": ["attention"] * self.layers,
        }

    def embed(self, ids: Tensor) -> Tensor:
        """See ``Adapter.embed``."""
        embedded: Tensor = self.model.model.embed_tokens(ids)
        return embedded

    def rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Adapter.rotary``."""
        like = torch.empty(0, device=self.device, dtype=self.dtype)
        cos, sin = self.model.model.rotary_emb(like, position_ids=positions[None])
        return cos, sin

    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.run_layer``: the stock decoder layer over a cache addressed by position."""
        out: Tensor = self.model.model.layers[layer](
            x, attention_mask=rows.mask, position_embeddings=rows.rotary, cache=view(cache, rows)
        )
        return out

    def write_filled(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> None:
        """See ``Adapter.write_filled``: norm, key and value projections, rotary; no query, output or MLP."""
        written = self.writes(layer, x)
        key, value = (self._heads(written[name]) for name in ("key", "value"))
        _, key = apply_rotary_pos_emb(key, key, *rows.rotary)
        cache.write(layer, key, value, rows.index)

    def writes(self, layer: int, x: Tensor) -> dict[str, Tensor]:
        """See ``Adapter.writes``."""
        block = self.model.model.layers[layer]
        normed = block.input_layernorm(x)
        return {"key": block.self_attn.k_proj(normed), "value": block.self_attn.v_proj(normed)}

    def attention_received(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.attention_received``."""
        block = self.model.model.layers[layer]
        query = self._heads(block.self_attn.q_proj(block.input_layernorm(x)))
        query, _ = apply_rotary_pos_emb(query, query, *rows.rotary)
        keys = cache.visible(layer, rows.stop)[0]
        batch, _, count, width = query.shape
        # Heads that share a key-value head are consecutive, so they fold into the query axis.
        grouped = query.reshape(batch, self.kv_heads, -1, count, width).float()
        scores = torch.einsum("bkgqd,bksd->bkgqs", grouped, keys.float()) * self.head_dim**-0.5
        mask = rows.mask
        if mask is None:
            mask = causal_mask(rows.positions, cache.start[layer], rows.stop)
        scores = scores.masked_fill(~mask[:, :, None], float("-inf"))
        return scores.softmax(-1).sum(dim=(0, 1, 2, 3))

    def logits(self, x: Tensor) -> Tensor:
        """See ``Adapter.logits``."""
        out: Tensor = self.model.lm_head(self.model.model.norm(x))
        return out

    def _heads(self, flat: Tensor) -> Tensor:
        batch, count, _ = flat.shape
        return flat.view(batch, count, -1, self.head_dim).transpose(1, 2)
