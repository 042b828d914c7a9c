"""Filled rows under KVA heads: their keys and values from the split state, as ``kva.py`` lays the heads out."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import linear, rms_norm, scaled_dot_product_attention, silu

from ridgefill.errors import ConfigError
from ridgefill.models.base import Rows
from ridgefill.models.cache import RowCache
from ridgefill.models.kva import KvaContext, KvaHeads

Rotate = Callable[[Tensor], Tensor]
"""Turns ``[B, heads, R, head_dim]`` to the rows' own positions, in the model's way."""
Store = Callable[[int, Tensor, Tensor, Rows, RowCache], None]
"""Layer, what its key and value projections would give ``[B, R, kv]``, rows and cache: norms, turns and writes them."""


def write_kva(
    heads: KvaHeads, layer: int, state: Tensor, rows: Rows, cache: RowCache, rotate: Rotate, store: Store
) -> None:
    """Write the entries of filled ``rows`` in ``layer`` from their split states ``[B, R, d_in]``.

    Heads with a context write all late layers at the split layer, where they meet the rows they mix, and nothing at the
    others. Raises ``ConfigError`` where the filled rows leave one out: nothing here knows the state of an exact row.
    """
    if heads.context is None:
        store(layer, *project(heads, layer, state, None), rows, cache)
    elif layer == heads.split:
        if int(rows.positions[-1]) + 1 != rows.positions.numel():
            raise ConfigError(
                "the KVA heads mix every row with all before it, and some prefix rows are exact; expected an arm "
                "without selected rows, or heads without a context (type linear)"
            )
        mixed = mix(heads, heads.context, state, rotate)
        for late in range(heads.split, heads.layers):
            store(late, *project(heads, late, state, mixed), rows, cache)


def project(heads: KvaHeads, layer: int, state: Tensor, mixed: Tensor | None) -> tuple[Tensor, Tensor]:
    """What ``k_proj`` and ``v_proj`` of ``layer`` would give, ``[B, R, kv]`` each.

    state: split states ``[B, R, d_in]``. mixed: the context's rows ``[B, R, d]``, None without one.
    """
    tensors = heads.tensors
    normed = _norm(state, tensors[f"layers.{layer}.norm.weight"], heads.eps)
    made = [
        linear(normed, tensors[f"layers.{layer}.{part}.weight"], tensors[f"layers.{layer}.{part}.bias"])
        for part in "kv"
    ]
    if mixed is not None:
        made = [
            one + linear(mixed, tensors[f"ctx.{part}_out.{layer}.weight"]) for part, one in zip("kv", made, strict=True)
        ]
    return made[0], made[1]


def mix(heads: KvaHeads, context: KvaContext, state: Tensor, rotate: Rotate) -> Tensor:
    """The context of the rows ``0 .. R - 1`` from their split states ``[B, R, d_in]``: ``[B, R, d]``."""
    tensors, eps = heads.tensors, heads.eps
    x = linear(_norm(state, None, eps), tensors["ctx.inp.weight"])
    for number in range(context.blocks):
        block = {name: tensors[f"ctx.blocks.{number}.{name}.weight"] for name in ("qkv", "o", "gate", "up", "down")}
        normed = _norm(x, tensors[f"ctx.blocks.{number}.n1"], eps)
        query, key, value = (
            part.unflatten(-1, (context.heads, -1)).transpose(1, 2)
            for part in linear(normed, block["qkv"]).chunk(3, -1)
        )
        attended = scaled_dot_product_attention(rotate(query), rotate(key), value, is_causal=True)
        x = x + linear(attended.transpose(1, 2).flatten(2), block["o"])
        normed = _norm(x, tensors[f"ctx.blocks.{number}.n2"], eps)
        x = x + linear(silu(linear(normed, block["gate"])) * linear(normed, block["up"]), block["down"])
    return _norm(x, tensors["ctx.out_norm.weight"], eps)


def _norm(x: Tensor, weight: Tensor | None, eps: float) -> Tensor:
    """RMS norm in fp32, as the models have theirs, back in the type of ``x``."""
    scale = None if weight is None else weight.to(torch.float32)
    return rms_norm(x.to(torch.float32), (x.shape[-1],), scale, eps).to(x.dtype)
