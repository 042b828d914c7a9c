"""The ``qwen4_exp`` family (Flash-Next): four residual streams, sparse attention with an indexer, experts, n-grams.

A layer's input is all streams side by side, ``[B, R, streams * hidden]``. Its **block input** is the gated, normed mix
of them that its attention connection makes, ``[B, R, hidden]``, which the projections take as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen4_exp.modeling_qwen4_exp import (
    apply_rotary_pos_emb,
    causal_conv1d_fn,
    torch_chunk_gated_delta_rule,
)

from ridgefill.errors import ModelError
from ridgefill.models.base import LINEAR, Rows, view
from ridgefill.models.cache import RowCache
from ridgefill.models.recurrent import DeltaRule, HybridAdapter

INDEXED = "indexed_attention"
"""Kind of a layer whose rows attend only to the blocks of tokens that an indexer picks for them."""


class Qwen4ExpAdapter(HybridAdapter):
    """Wraps a stock ``Qwen4ExpForCausalLM``, or the text model of a ``Qwen4ExpForConditionalGeneration``."""

    family = "qwen4_exp"
    position_axes = 3
    rule = DeltaRule(causal_conv1d_fn, torch_chunk_gated_delta_rule)

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        config = model.config.get_text_config()
        self.streams = int(config.hc_count)
        self.width = self.streams * self.hidden
        self.ngram_layers = tuple(number - 1 for number in config.ple_layer_ids)
        if self.ngram_layers:
            # They add features of the token ids to their input, which no map of the split state could know.
            self.first_split = self.ngram_layers[-1] + 1
            named = ", ".join(str(layer) for layer in self.ngram_layers)
            self.split_reason = f", above the n-gram layers ({named})"
        self.fingerprint |= {"width": self.width}

    def embed(self, ids: Tensor) -> Tensor:
        """See ``Adapter.embed``: every stream starts from the token's embedding."""
        return super().embed(ids).repeat(1, 1, self.streams)

    def block_input(self, layer: int, x: Tensor) -> Tensor:
        """See ``Adapter.block_input``: the mix of the streams that the layer's attention connection makes."""
        if layer in self.ngram_layers:
            raise ModelError(
                f"layer {layer} has no block input of its own, as it adds n-gram features to its streams first; "
                f"expected a layer from {self.first_split}"
            )
        mixed: Tensor = self.decoder.layers[layer].attn_hyper_connection(x)[0]
        return mixed

    def normed(self, layer: int, block_input: Tensor) -> Tensor:
        """See ``AttentionAdapter.normed``: the connection has normed it."""
        return block_input

    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.run_layer``: the stock decoder layer over a cache addressed by position."""
        if layer in self.ngram_layers and rows.ids is None:
            raise ModelError(f"layer {layer} looks at the tokens themselves; give the rows their token ids")
        stock, kind = self.decoder.layers[layer], self.kinds[layer]
        seen = view(cache, rows, kind)
        if kind == LINEAR:
            out: Tensor = stock(x, position_embeddings=None, cache=seen, ple_input_ids=rows.ids)
        else:
            table, mask = self._table(x, rows), self._mask(x, rows)
            out = stock(x, position_embeddings=table, attention_mask=mask, cache=seen)
        return out

    def write_filled(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """See ``Adapter.write_filled``: keys and values, and the indexer's raw keys; no row is routed to an expert."""
        written = self.writes(layer, block_input)
        key, value = (self._heads(written[name]) for name in ("key", "value"))
        cache.write(layer, self.rotate(key, rows.rotary[INDEXED]), value, rows.index)
        cache.write_indexed(layer, written["index"], rows.index)

    def writes(self, layer: int, block_input: Tensor) -> dict[str, Tensor]:
        """See ``Adapter.writes``; of a sparse layer also ``index``, the indexer's raw keys ``[B, R, index_dim]``."""
        written = super().writes(layer, block_input)
        return written if self.kinds[layer] == LINEAR else {**written, "index": self._index_keys(layer, block_input)}

    def opened(self, layer: int, x: Tensor) -> tuple[Tensor, Any]:
        """See ``HybridAdapter.opened``: of the attention connection also the streams and their weights."""
        block_input, streams, weights = self.decoder.layers[layer].attn_hyper_connection(x)
        return block_input, (streams, weights)

    def finish(self, layer: int, opened: Any, mixed: Tensor) -> Tensor:
        """See ``HybridAdapter.finish``: block outputs are injected into the streams, each by its own weight."""
        stock = self.decoder.layers[layer]
        streams, weights = opened
        streams = streams + (mixed.unsqueeze(-2) * weights.unsqueeze(-1)).flatten(-2)
        block_input, streams, weights = stock.mlp_hyper_connection(streams)
        out: Tensor = streams + (stock.mlp(block_input).unsqueeze(-2) * weights.unsqueeze(-1)).flatten(-2)
        return out

    def rotate(self, heads: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        """See ``AttentionAdapter.rotate``: the first part of each head turns, the rest stays."""
        rotated: Tensor = apply_rotary_pos_emb(heads, None, *rotary)
        return rotated

    def attention_received(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.attention_received``: rows attend to what their indexer picks, so the rest receives nothing."""
        mask = self._mask(x, rows)
        picked = self.decoder.layers[layer].self_attn.indexer(
            self.block_input(layer, x), self._table(x, rows), mask, _Written(cache, rows.begin[INDEXED], rows.stop)
        )
        return super().attention_received(layer, x, replace(rows, mask={INDEXED: mask & picked}), cache)

    def logits(self, x: Tensor) -> Tensor:
        """See ``Adapter.logits``: the streams are mixed a last time."""
        out: Tensor = self.model.lm_head(self.decoder.hyper_connection_mixer(x))
        return out

    def _index_keys(self, layer: int, block_input: Tensor) -> Tensor:
        """Raw indexer keys: the second part of a projection whose first makes the indexer's queries."""
        indexer = self.decoder.layers[layer].self_attn.indexer
        keys = indexer.index_qk_proj.weight[indexer.index_n_heads * indexer.index_head_dim :]
        return torch.nn.functional.linear(block_input, keys)

    def _plain(self, kind: str, from_start: bool, count: int) -> bool:
        """See ``Adapter._plain``: the indexer reads off the mask what a row may see, so it is always written."""
        return kind != INDEXED and super()._plain(kind, from_start, count)

    def _mask(self, x: Tensor, rows: Rows) -> Tensor:
        """The rows' mask with an entry per batch entry, ``[B, 1, R, stop - begin]``; a new row without one sees all."""
        mask = rows.mask[INDEXED]
        if mask is None:
            span = rows.stop - rows.begin[INDEXED]
            mask = torch.ones(x.shape[1], span, dtype=torch.bool, device=x.device).tril(span - x.shape[1])[None, None]
        return mask.expand(x.shape[0], -1, -1, -1)

    def _table(self, x: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
        """Cosine and sine of every position from ``begin`` to ``stop``, then of the rows, as stock indexers slice them.

        ``[B, stop - begin + R, rotary_dim]``. In a decoding batch, one row each, entries count from their own start.
        """
        own = rows.positions[:, None] if x.shape[1] == 1 else rows.positions[None]
        column = rows.index.start if isinstance(rows.index, slice) else rows.index[0]
        columns = torch.arange(rows.begin[INDEXED], rows.stop, device=x.device)
        places = torch.cat([columns + (own[:, :1] - column), own], dim=1)
        cos, sin = self.decoder.rotary_emb(x, places)
        return cos.expand(x.shape[0], -1, -1), sin.expand(x.shape[0], -1, -1)


@dataclass(frozen=True)
class _Written:
    """A cache whose indexer keys are read and stay as they are, for a row that already wrote its own."""

    cache: RowCache
    begin: int
    stop: int

    def update_indexer(self, raw: Tensor, layer_idx: int) -> Tensor:
        """The call indexers make: stored raw keys ``begin .. stop``; ``raw`` is among them."""
        return self.cache.visible_indexed(layer_idx, self.begin, self.stop)
