"""Hybrids of attention and Gated DeltaNet layers, whose rows feed a state in order: what their families share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from ridgefill.mapfiles.manifest import GEOMETRY
from ridgefill.models.attention import AttentionAdapter
from ridgefill.models.base import LINEAR, Rows, view
from ridgefill.models.cache import RowCache, RowView


@dataclass(frozen=True)
class DeltaRule:
    """How the stock recurrent block of a family computes, in pieces, so that filled rows can skip most of them.

    convolve, scan: the block's own functions, from its modelling module (transformers may put kernels behind them).
    """

    convolve: Callable[..., Tensor]
    scan: Callable[..., tuple[Tensor, Tensor]]

    def inputs(self, block: Any, normed: Tensor) -> dict[str, Tensor]:
        """What rows feed the recurrence: ``qkv`` ``[B, R, conv_dim]`` before the convolution, ``b`` and ``a``
        ``[B, R, value_heads]``."""
        return {"qkv": block.in_proj_qkv(normed), "b": block.in_proj_b(normed), "a": block.in_proj_a(normed)}

    def projected(self, block: Any, normed: Tensor, exact: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        """``inputs`` of all rows, and of the rows ``exact`` (int64 ``[E]``) the output gate before its activation,
        ``[B, E, value_heads * value_dim]``."""
        return self.inputs(block, normed), block.in_proj_z(normed[:, exact])

    def mix(self, block: Any, normed: Tensor, exact: Tensor, cache: RowView) -> Tensor:
        """Pass rows ``[B, R, hidden]`` through the block in order; its output on the rows ``exact`` (int64 ``[E]``).

        The block's states in ``cache`` go from before the first row to after the last; the recurrent one, ``[B,
        value_heads, key_dim, value_dim]``, stays in fp32. The other rows' queries, gates and outputs are unused.
        """
        batch, count, _ = normed.shape
        before = cache.get_recurrent_state(block.layer_idx)
        fed, gate = self.projected(block, normed, exact)
        window = cache.update_conv_state(
            fed["qkv"].transpose(1, 2), block.layer_idx, conv_kernel_size=block.conv_kernel_size
        )
        mixed = self.convolve(window, block.conv1d.weight.squeeze(1), block.conv1d.bias, activation=block.activation)
        parts = mixed[:, :, -count:].transpose(1, 2).split([block.key_dim, block.key_dim, block.value_dim], -1)
        query, key = (part.unflatten(-1, (-1, block.head_k_dim)) for part in parts[:2])
        value = parts[2].unflatten(-1, (-1, block.head_v_dim))
        decay = -block.A_log.float().exp() * torch.nn.functional.softplus(fed["a"].float() + block.dt_bias)
        out, after = self.scan(
            query,
            key,
            value,
            g=decay,
            beta=fed["b"].sigmoid(),
            initial_state=before,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )
        cache.update_recurrent_state(after, block.layer_idx)
        gated = block.norm(out[:, exact].reshape(-1, block.head_v_dim), gate.reshape(-1, block.head_v_dim))
        projected: Tensor = block.out_proj(gated.reshape(batch, exact.numel(), -1))
        return projected


class Recurrent(Protocol):
    """What adapters of models with recurrent layers have besides, for corrections of a state; see ``HybridAdapter``."""

    def run_noting(
        self, layer: int, x: Tensor, exact: Sequence[Rows], predicted: Tensor, filled: Rows, cache: RowCache
    ) -> tuple[Tensor, Tensor]:
        """Next inputs of the exact rows, and the log gates of all rows."""

    def advance(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """Feed a layer's states."""


class HybridAdapter(AttentionAdapter):
    """Wraps a stock model whose attention layers are gated and normed, and whose others are Gated DeltaNets.

    Whole layers still run the stock modules. Only where filled rows feed a recurrent state does ``rule`` take the
    block apart (METHOD section 3).
    """

    rule: DeltaRule
    qk_norm = True

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        config = model.config.get_text_config()
        self.fingerprint |= {name: int(getattr(config, name)) for name in GEOMETRY}

    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """See ``Adapter.run_layer``. A recurrent layer continues from its states in ``cache``, whatever came before."""
        if self.kinds[layer] == LINEAR:
            # A decoding batch hides columns by a mask; a recurrent block would take it for padding.
            rows = replace(rows, mask={**rows.mask, LINEAR: None})
        return super().run_layer(layer, x, rows, cache)

    def writes(self, layer: int, block_input: Tensor) -> dict[str, Tensor]:
        """See ``Adapter.writes``."""
        if self.kinds[layer] != LINEAR:
            return super().writes(layer, block_input)
        return self.rule.inputs(self.decoder.layers[layer].linear_attn, self.normed(layer, block_input))

    def run_late(
        self,
        layer: int,
        x: Tensor,
        exact: Sequence[Rows],
        predicted: Tensor | None,
        filled: Rows | None,
        cache: RowCache,
    ) -> Tensor:
        """See ``Adapter.run_late``. Recurrent layers: one scan over all rows by position, outputs for exact rows only.

        Without filled rows only the exact ones feed the state, as stock layers.
        """
        if self.kinds[layer] != LINEAR or filled is None or predicted is None:
            return super().run_late(layer, x, exact, predicted, filled, cache)
        positions = torch.cat([filled.positions, *(rows.positions for rows in exact)])
        order = positions.argsort()
        places = order.argsort()[filled.positions.numel() :]
        own, opened = self.opened(layer, x)
        fed = torch.cat([predicted, own], dim=1)[:, order]
        block = self.decoder.layers[layer].linear_attn
        mixed = self.rule.mix(block, self.normed(layer, fed), places, view(cache, filled, LINEAR))
        return self.finish(layer, opened, mixed)

    def run_noting(
        self, layer: int, x: Tensor, exact: Sequence[Rows], predicted: Tensor, filled: Rows, cache: RowCache
    ) -> tuple[Tensor, Tensor]:
        """``run_late`` of a recurrent layer, also without any exact row, and the log gates that its scan computed.

        Next inputs of the exact rows, and the gates of all rows in order of position, fp32 ``[B, R, value_heads]``.
        """
        noted: list[Tensor] = []

        def scan(*args: Any, g: Tensor, **options: Any) -> tuple[Tensor, Tensor]:
            noted.append(g)
            return self.rule.scan(*args, g=g, **options)

        noting = copy.copy(self)
        noting.rule = replace(self.rule, scan=scan)
        if exact:
            x = noting.run_late(layer, x, exact, predicted, filled, cache)
        else:
            noting.advance(layer, predicted, filled, cache)
        return x, noted[0]

    def advance(self, layer: int, block_input: Tensor, rows: Rows, cache: RowCache) -> None:
        """Feed block inputs ``[B, R, hidden]`` to a recurrent layer's states, in order, for no output."""
        block = self.decoder.layers[layer].linear_attn
        # The rule gives the output of at least one row; the last one's is the price of not taking the rule apart.
        last = torch.tensor([block_input.shape[1] - 1], device=block_input.device)
        self.rule.mix(block, self.normed(layer, block_input), last, view(cache, rows, LINEAR))

    def opened(self, layer: int, x: Tensor) -> tuple[Tensor, Any]:
        """Block inputs of true layer inputs ``x``, and what ``finish`` needs, so that nothing is made twice."""
        return x, x

    def finish(self, layer: int, opened: Any, mixed: Tensor) -> Tensor:
        """The rest of a layer after its block: what ``opened`` gave and block outputs ``mixed`` to the next inputs."""
        stock = self.decoder.layers[layer]
        residual = opened + mixed
        out: Tensor = residual + stock.mlp(stock.post_attention_layernorm(residual))
        return out

    def query(self, layer: int, x: Tensor) -> Tensor:
        """See ``AttentionAdapter.query``: each head's projection holds its query, then its output gate."""
        block = self.decoder.layers[layer].self_attn
        both = block.q_proj(self.normed(layer, self.block_input(layer, x)))
        query: Tensor = block.q_norm(both.unflatten(-1, (-1, 2 * self.head_dim))[..., : self.head_dim])
        return query.transpose(1, 2)
