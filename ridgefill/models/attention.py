"""Decoders whose every layer is stock attention over keys and values: what their families have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ridgefill.errors import ModelError
from ridgefill.models.base import Adapter, Rows, causal_mask, view
from ridgefill.models.cache import RowCache
from ridgefill.models.kva_rows import write_kva

WRITTEN_AT_ONCE = 512
"""Filled rows whose norms, projections and rotations are made together: few enough to stay in a core's cache."""


class AttentionAdapter(Adapter):
    """Wraps a stock causal language model; whole layers run the stock modules, so exact rows are stock rows.

    family: its name. qk_norm: whether queries and keys are normed per head. Subclasses give the rotary function.
    """

    family: str
    qk_norm: bool

    def __init__(self, model: Any) -> None:
        config = model.config.get_text_config()
        if config._attn_implementation != "sdpa":
            raise ModelError(
                f"the model uses {config._attn_implementation} attention; expected sdpa, as others ignore a missing "
                "mask or a boolean one. Load it with attn_implementation='sdpa'"
            )
        self.model = model.eval().requires_grad_(False)
        self.decoder = model.get_decoder()
        self.layers = int(config.num_hidden_layers)
        self.hidden = self.width = int(config.hidden_size)
        self.head_dim = int(getattr(config, "head_dim", None) or self.hidden // config.num_attention_heads)
        self.heads = int(config.num_attention_heads)
        self.kv_heads = int(config.num_key_value_heads)
        self.groups = self.heads // self.kv_heads
        self.kinds = tuple(getattr(config, "layer_types", None) or ["full_attention"] * self.layers)
        sliding = "sliding_attention" in self.kinds
        self.windows: Mapping[str, int] = {"sliding_attention": int(config.sliding_window)} if sliding else {}
        self.device, self.dtype = model.device, model.dtype
        self.fingerprint = {
            "family": self.family,
            "layers": self.layers,
            "hidden": self.hidden,
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "head_dim": self.head_dim,
            "layer_types": [_written(kind) for kind in self.kinds],
        }

    def embed(self, ids: Tensor) -> Tensor:
        """See ``Adapter.embed``."""
        embedded: Tensor = self.decoder.embed_tokens(ids)
        return embedded

    def rotary(self, positions: Tensor) -> Mapping[str, tuple[Tensor, Tensor]]:
        """See ``Adapter.rotary``: one table for all kinds."""
        like = torch.empty(0, device=self.device, dtype=self.dtype)
        cos, sin = self.decoder.rotary_emb(like, position_ids=positions[None])
        return dict.fromkeys(self.kinds, (cos, sin))

    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.run_layer``: the stock decoder layer over a cache addressed by position."""
        kind = self.kinds[layer]
        out: Tensor = self.decoder.layers[layer](
            x,
            attention_mask=rows.mask[kind],
            position_embeddings=rows.rotary[kind],
            cache=view(cache, rows, kind),
        )
        return out

    def write_filled(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """See ``Adapter.write_filled``: norm, key and value projections, key norm, rotary; no query, output or MLP.

        Under KVA heads ``block_input`` is the split state.
        """
        if self.kva is not None:
            turn = rows.rotary[self.kinds[layer]]
            write_kva(self.kva, layer, block_input, rows, cache, lambda part: self.rotate(part, turn), self._projected)
            return
        for part, some in rows.blocks(WRITTEN_AT_ONCE):
            written = self.writes(layer, block_input[:, part])
            self._store(layer, written["key"], written["value"], some, cache)

    def writes(self, layer: int, block_input: Tensor) -> dict[str, Tensor]:
        """See ``Adapter.writes``."""
        normed = self.normed(layer, block_input)
        block = self.decoder.layers[layer].self_attn
        return {"key": self._key_normed(layer, block.k_proj(normed)), "value": block.v_proj(normed)}

    def normed(self, layer: int, block_input: Tensor) -> Tensor:
        """The block input as its projections take it."""
        out: Tensor = self.decoder.layers[layer].input_layernorm(block_input)
        return out

    def query(self, layer: int, x: Tensor) -> Tensor:
        """Queries of true layer inputs before rotary, ``[B, heads, R, head_dim]``."""
        block = self.decoder.layers[layer].self_attn
        query = self._heads(block.q_proj(self.normed(layer, self.block_input(layer, x))))
        normed: Tensor = block.q_norm(query) if self.qk_norm else query
        return normed

    @abstractmethod
    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """Rotate ``[B, heads, R, head_dim]`` to its positions, in the family's own way."""

    def attention_received(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.attention_received``."""
        kind = self.kinds[layer]
        query = self.rotate(self.query(layer, x), rows.rotary[kind])
        keys = cache.visible(layer, rows.begin[kind], rows.stop)[0]
        batch, _, count, width = query.shape
        # Heads that share a key-value head are consecutive, so they fold into the query axis.
        grouped = query.reshape(batch, self.kv_heads, -1, count, width).float()
        scaling = float(self.decoder.layers[layer].self_attn.scaling)
        scores = torch.einsum("bkgqd,bksd->bkgqs", grouped, keys.float()) * scaling
        mask = rows.mask[kind]
        if mask is None:
            mask = causal_mask(rows.positions, rows.begin[kind], rows.stop)
        scores = scores.masked_fill(~mask[:, :, None], float("-inf"))
        return scores.softmax(-1).sum(dim=(0, 1, 2, 3))

    def logits(self, x: Tensor) -> Tensor:
        """See ``Adapter.logits``."""
        out: Tensor = self.model.lm_head(self.decoder.norm(x))
        return out

    def _projected(self, layer: int, key: Tensor, value: Tensor, rows: Rows, cache: RowCache) -> None:
        """Write what key and value projections gave, ``[B, R, kv_heads * head_dim]`` each."""
        self._store(layer, self._key_normed(layer, key), value, rows, cache)

    def _store(self, layer: int, key: Tensor, value: Tensor, rows: Rows, cache: RowCache) -> None:
        turned = self.rotate(self._heads(key), rows.rotary[self.kinds[layer]])
        cache.write(layer, turned, self._heads(value), rows.index)

    def _key_normed(self, layer: int, key: Tensor) -> Tensor:
        if not self.qk_norm:
            return key
        normed: Tensor = self.decoder.layers[layer].self_attn.k_norm(key.unflatten(-1, (-1, self.head_dim)))
        return normed.flatten(-2)

    def _heads(self, flat: Tensor) -> Tensor:
        batch, count, _ = flat.shape
        return flat.view(batch, count, -1, self.head_dim).transpose(1, 2)


def _written(kind: str) -> str:
    """A layer's kind as map files spell it: plain attention has no further name."""
    return "attention" if kind == "full_attention" else kind
