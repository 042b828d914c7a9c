"""A whole pass over token ids through the stock modules, with parts of what came before the question taken away.

Training forces with it, and :mod:`ridgefill.hybrid.ablations` asks with it where a checkpoint retrieves.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from transformers.models.qwen3_5.modeling_qwen3_5 import apply_rotary_pos_emb

from ridgefill.hybrid.scan import gated_delta_rule

FORGET = -40.0
"""Added to the log decay at the question: less than 1e-17 of a state is left, without an infinity in the gradient."""


@dataclass(frozen=True)
class Cut:
    """What rows from ``start`` on no longer find of the rows before it.

    attention: layers whose keys and values are gone. states: layers whose recurrent state is gone. start: int64
    ``[B]``, the first row of the question; 0 takes nothing away from that episode.
    """

    attention: Collection[int]
    states: Collection[int]
    start: Tensor


NOTHING = Cut((), (), torch.zeros(0, dtype=torch.int64))


def hidden_states(network: Any, ids: Tensor, cut: Cut = NOTHING) -> Tensor:
    """Final normed hidden states ``[B, L, hidden]`` of token ids int64 ``[B, L]``, in the model's type."""
    decoder = network.model
    x = decoder.embed_tokens(ids)
    positions = torch.arange(ids.shape[1]).expand(3, 1, -1)
    rotary = decoder.rotary_emb(x, positions)
    mask = _mask(cut.start, ids.shape[1]) if cut.attention else None
    for place, layer in enumerate(decoder.layers):
        normed = layer.input_layernorm(x)
        if hasattr(layer, "self_attn"):
            mixed = attend(layer.self_attn, normed, rotary, mask if place in cut.attention else None)
        else:
            mixed = recur(layer.linear_attn, normed, cut.start if place in cut.states else None)
        x = x + mixed
        x = x + layer.mlp(layer.post_attention_layernorm(x))
    found: Tensor = decoder.norm(x)
    return found


def attend(block: Any, normed: Tensor, rotary: tuple[Tensor, Tensor], mask: Tensor | None) -> Tensor:
    """A stock gated attention block on rows ``[B, L, hidden]``; mask: boolean ``[B, 1, L, L]``, or None for causal."""
    heads = normed.shape[:-1]
    query, gate = block.q_proj(normed).unflatten(-1, (-1, 2 * block.head_dim)).chunk(2, -1)
    query = block.q_norm(query).transpose(1, 2)
    key = block.k_norm(block.k_proj(normed).unflatten(-1, (-1, block.head_dim))).transpose(1, 2)
    value = block.v_proj(normed).unflatten(-1, (-1, block.head_dim)).transpose(1, 2)
    query, key = apply_rotary_pos_emb(query, key, *rotary)
    found = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, scale=block.scaling, enable_gqa=True
    )
    gated = found.transpose(1, 2) * gate.sigmoid()
    out: Tensor = block.o_proj(gated.reshape(*heads, -1))
    return out


def recur(block: Any, normed: Tensor, start: Tensor | None) -> Tensor:
    """A stock Gated DeltaNet block on rows ``[B, L, hidden]``; start: where each episode's state is forgotten."""
    mixed = functional.silu(convolve(block.in_proj_qkv(normed), block.conv1d.weight))
    parts = torch.split(mixed, [block.key_dim, block.key_dim, block.value_dim], -1)
    query, key, value = (
        part.reshape(*normed.shape[:2], -1, width).transpose(1, 2).float()
        for part, width in zip(parts, (block.head_k_dim, block.head_k_dim, block.head_v_dim), strict=True)
    )
    shared = block.num_v_heads // block.num_k_heads
    query, key = (_unit(part).repeat_interleave(shared, dim=1) for part in (query, key))
    decay = -block.A_log.float().exp() * functional.softplus(block.in_proj_a(normed).float() + block.dt_bias)
    if start is not None:
        # An episode that keeps its state starts at row 0, where the state is empty anyway.
        reset = functional.one_hot(start, normed.shape[1]).to(decay) * FORGET
        decay = decay + reset.unsqueeze(-1)
    beta = block.in_proj_b(normed).sigmoid().float()
    out = gated_delta_rule(
        query * block.head_k_dim**-0.5, key, value, decay.transpose(1, 2), beta.transpose(1, 2)
    ).transpose(1, 2)
    gate = block.in_proj_z(normed).unflatten(-1, (-1, block.head_v_dim))
    gated = block.norm(out, gate).to(normed.dtype)
    projected: Tensor = block.out_proj(gated.flatten(-2))
    return projected


def convolve(rows: Tensor, weight: Tensor) -> Tensor:
    """A causal convolution of each channel, as a sum of shifted rows; rows ``[B, L, C]``, weight ``[C, 1, K]``."""
    taps = weight.squeeze(1).unbind(-1)
    padded = functional.pad(rows, (0, 0, len(taps) - 1, 0))
    out = padded[:, : rows.shape[1]] * taps[0]
    for shift, tap in enumerate(taps[1:], 1):
        out = torch.addcmul(out, padded[:, shift : shift + rows.shape[1]], tap)
    return out


def _unit(rows: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.square().sum(-1, keepdim=True) + 1e-6)


def _mask(start: Tensor, length: int) -> Tensor:
    places = torch.arange(length)
    causal = places[None, :] <= places[:, None]
    crosses = (places[:, None] >= start[:, None, None]) & (places[None, :] < start[:, None, None])
    return (causal & ~crosses).unsqueeze(1)
