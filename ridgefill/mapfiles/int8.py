"""Weights as int8: a code each, and one bf16 scale for every 128 columns of a row (METHOD section 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.errors import MapError, NumericsError

GROUP = 128
"""Columns that share a scale."""
LARGEST = 127
"""Codes are -127 .. 127; -128 is never used."""


@dataclass(frozen=True)
class Int8Error:
    """What quantising one layer's weights cost, in units of the weights.

    worst: largest ``|w - value|``. mean: mean of it. relative: root mean square of it over that of the weights.
    """

    worst: float
    mean: float
    relative: float


@dataclass(frozen=True, eq=False)
class Int8Weights(Mapping[int, Tensor]):
    """Weights by layer that stay int8 in memory and become numbers when they are asked for.

    codes: int8 ``[d_out, d_in]``. scales: bf16 ``[d_out, d_in / 128]``. ``self[l]``: ``[d_out, d_in]`` in ``dtype``;
    float32 holds every value exactly (7 bits of code times 8 of scale).
    """

    codes: Mapping[int, Tensor]
    scales: Mapping[int, Tensor]
    dtype: torch.dtype = torch.float32

    def __getitem__(self, layer: int) -> Tensor:
        # Codes and scales are bf16 numbers, so their product in bf16 is the rounded fp32 one, from half the memory.
        within = torch.bfloat16 if self.dtype == torch.bfloat16 else torch.float32
        return dequantise(self.codes[layer], self.scales[layer], within).to(self.dtype)

    def __iter__(self) -> Iterator[int]:
        return iter(self.codes)

    def __len__(self) -> int:
        return len(self.codes)

    def to(self, dtype: torch.dtype, device: torch.device) -> Int8Weights:
        """The same codes in another place, to be read in another type."""
        codes = {layer: value.to(device) for layer, value in self.codes.items()}
        scales = {layer: value.to(device) for layer, value in self.scales.items()}
        return Int8Weights(codes, scales, dtype)


def moved(weights: Mapping[int, Tensor], dtype: torch.dtype, device: torch.device) -> Mapping[int, Tensor]:
    """Weights in another type and place; int8 codes stay codes."""
    if isinstance(weights, Int8Weights):
        return weights.to(dtype, device)
    return {layer: weight.to(device, dtype) for layer, weight in weights.items()}


def quantise(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Codes int8 ``[d_out, d_in]`` and scales bf16 ``[d_out, d_in / 128]`` of weights ``[d_out, d_in]``.

    scale = largest magnitude of the group / 127, rounded to bf16; code = weight / rounded scale, rounded half to even
    and clamped to +-127. Values that came from codes give the same codes again. Raises ``MapError`` when ``d_in`` is
    not a multiple of 128, ``NumericsError`` for a weight that is not finite.
    """
    columns = weight.shape[-1]
    if columns % GROUP:
        raise MapError(
            f"int8 maps keep one scale for every {GROUP} columns, but these have {columns}, which is not a multiple of "
            f"{GROUP}; keep them as bf16"
        )
    grouped = _groups(weight.float())
    scale = (grouped.abs().amax(-1) / LARGEST).to(torch.bfloat16)
    if not bool(torch.isfinite(scale).all()):
        raise NumericsError("the weights to quantise hold a NaN or an infinity; fit the maps again")
    # A group of zeros, or one so small that its scale rounds to zero: any scale gives zeros, and 1 is the rule.
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    codes = (grouped / scale.float()[..., None]).round().clamp(-LARGEST, LARGEST)
    return codes.to(torch.int8).flatten(-2), scale


def dequantise(codes: Tensor, scale: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Values ``[d_out, d_in]``: code times the scale of its group, exact in fp32, rounded once in bf16."""
    return (_groups(codes.to(dtype)) * scale.to(dtype)[..., None]).flatten(-2)


def codes_and_scales(weights: Mapping[int, Tensor], layer: int) -> tuple[Tensor, Tensor]:
    """One layer's codes and scales: those it has, else by ``quantise``."""
    if isinstance(weights, Int8Weights):
        return weights.codes[layer], weights.scales[layer]
    return quantise(weights[layer])


def error(weight: Tensor, codes: Tensor, scale: Tensor) -> Int8Error:
    """How far the codes are from the weights they stand for."""
    gap = (weight.float() - dequantise(codes, scale)).abs().double()
    size = float(weight.double().square().mean().sqrt())
    relative = float(gap.square().mean().sqrt()) / size if size > 0 else 0.0
    return Int8Error(float(gap.max()), float(gap.mean()), relative)


def _groups(rows: Tensor) -> Tensor:
    """``[..., d_in]`` as ``[..., d_in / 128, 128]``."""
    return rows.reshape(*rows.shape[:-1], -1, GROUP)
