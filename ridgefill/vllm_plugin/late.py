"""What filled rows leave in late layers: maps, and the layers' own norms and projections."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ridgefill.mapfiles.int8 import Int8Weights
from ridgefill.maps import RidgeMaps
from ridgefill.vllm_plugin.settings import Settings

WRITTEN_AT_ONCE = 512
"""Filled rows that are predicted, normed, projected and rotated together: few enough to stay in a core's cache."""


def is_recurrent(block: Any) -> bool:
    """Whether one of the engine's decoder layers keeps states instead of keys and values."""
    return hasattr(block, "linear_attn")


@dataclass(frozen=True)
class Projection:
    """Key and value rows of a layer's fused projection. weight: ``[2 * kv, hidden]``. bias: ``[2 * kv]`` or None."""

    weight: Tensor
    bias: Tensor | None


@dataclass
class LateLayers:
    """Writes filled rows into the engine's cache.

    split: first late layer. predict: layer and split states ``[R, hidden]`` to layer inputs of the same shape.
    true_split: whether the split layer's rows are the states themselves. projections: by layer that attends.
    """

    split: int
    predict: Callable[[int, Tensor], Tensor]
    true_split: bool
    projections: Mapping[int, Projection]
    bytes: int

    def write(self, layer: int, block: Any, state: Tensor, positions: Tensor, slots: Tensor) -> None:
        """Write keys and values of filled rows of ``layer``: norms, projection and rotation are the layer's own.

        block: the engine's decoder layer. state: split states ``[R, hidden]``. positions: int64 ``[R]``, or ``[3, R]``
        where the engine counts a picture's rows and columns too. slots: int64 ``[R]``.
        """
        for begin in range(0, len(state), WRITTEN_AT_ONCE):
            part = slice(begin, begin + WRITTEN_AT_ONCE)
            self._write(layer, block, state[part], positions[..., part], slots[part])

    def scan(
        self,
        layer: int,
        block: Any,
        state: Tensor,
        filled: Tensor,
        exact: Tensor,
        stream: tuple[Tensor, Tensor],
    ) -> tuple[Tensor, Tensor]:
        """A recurrent layer over all rows of a step in their order, filled ones with predicted inputs.

        Its convolution and its states have to pass through filled rows too (paper section 2.3); only exact rows go on.
        state: split states of the filled rows. filled, exact: places of rows in the step. stream: hidden states and
        residual of exact rows, as the layer takes and gives them. Called under the engine's own metadata of the step.
        """
        normed, residual = block.input_layernorm(*stream)
        rows = normed.new_empty((len(filled) + len(exact), normed.shape[-1]))
        rows[exact] = normed
        for begin in range(0, len(state), WRITTEN_AT_ONCE):
            part = slice(begin, begin + WRITTEN_AT_ONCE)
            rows[filled[part]] = block.input_layernorm(self._entering(layer, state[part]))
        mixed = block.linear_attn(hidden_states=rows)[exact]
        if not len(exact):
            return mixed, residual
        hidden, residual = block.post_attention_layernorm(mixed, residual)
        return block.mlp(hidden), residual

    def _entering(self, layer: int, state: Tensor) -> Tensor:
        return state if self.true_split and layer == self.split else self.predict(layer, state)

    def _write(self, layer: int, block: Any, state: Tensor, positions: Tensor, slots: Tensor) -> None:
        attention, projection = block.self_attn, self.projections[layer]
        normed = block.input_layernorm(self._entering(layer, state))
        both = torch.nn.functional.linear(normed, projection.weight, projection.bias)
        key, value = both[:, : attention.kv_size], both[:, attention.kv_size :]
        kept, shape = attention.attn, (-1, attention.num_kv_heads, attention.head_dim)
        # The engine rotates in place, and takes no rows with gaps between them.
        key = key.contiguous()
        if hasattr(attention, "k_norm"):
            key = attention.k_norm(key.view(shape)).view(key.shape)
        # Rotations of three positions insist on a second tensor, whose result is not used.
        key, _ = attention.rotary_emb(positions, key, None if positions.ndim == 1 else key.clone())
        kept.impl.do_kv_cache_update(kept, key.view(shape), value.reshape(shape), kept.kv_cache, slots)


def late_layers(layers: Any, maps: RidgeMaps, settings: Settings, dtype: torch.dtype) -> LateLayers:
    """The late layers of a model whose weights were just loaded and not yet packed for this processor.

    Copies the key and value rows of each fused projection, because packing takes the plain weights away.
    """
    device = next(layers.parameters()).device
    own = maps.to(dtype, device)
    late = sorted({own.split, *own.weights})
    projections = {layer: _projection(layers[layer].self_attn) for layer in late if not is_recurrent(layers[layer])}
    tensors = [*own.biases.values(), *(one.weight for one in projections.values())]
    held = sum(int(tensor.nbytes) for tensor in tensors) + _weight_bytes(own)
    return LateLayers(own.split, own.predict, settings.split_layer == "exact", projections, held)


def _projection(attention: Any) -> Projection:
    """Key and value rows are the last ones, after queries and, where outputs are gated, gates."""
    fused, kept = attention.qkv_proj, 2 * attention.kv_size
    bias = getattr(fused, "bias", None)
    return Projection(fused.weight.detach()[-kept:].clone(), None if bias is None else bias.detach()[-kept:].clone())


def _weight_bytes(maps: RidgeMaps) -> int:
    if isinstance(maps.weights, Int8Weights):
        held = [*maps.weights.codes.values(), *maps.weights.scales.values()]
    else:
        held = list(maps.weights.values())
    return sum(int(tensor.nbytes) for tensor in held)
