"""Value and key rescale (paper section 2.3): filled entries take the norm that the request's own tail rows show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ridgefill.corrections.cost import rescale_macs
from ridgefill.errors import ConfigError, NumericsError
from ridgefill.models.base import LINEAR, Adapter
from ridgefill.models.cache import RowCache, RowIndex, beside

Part = Literal["key", "value"]
ROWS = 512
"""Tail rows of the 27B deployment's measurement (paper Table 4)."""


@dataclass(frozen=True)
class LayerScales:
    """What one request measured in one layer.

    scales: fp32 ``[kv_heads]`` by part. rows: tail rows measured. macs: multiply-accumulates that it took.
    """

    scales: Mapping[Part, Tensor]
    rows: int
    macs: int


@dataclass(frozen=True)
class Rescale:
    """Which entries of filled rows are rescaled, and how many of the first tail rows they are measured on."""

    parts: tuple[Part, ...] = ("value",)
    rows: int = ROWS

    def __post_init__(self) -> None:
        if not self.parts or set(self.parts) - {"key", "value"} or len(set(self.parts)) != len(self.parts):
            raise ConfigError(f"a rescale of {list(self.parts)} was asked for; expected key, value, or both")
        if self.rows < 1:
            raise ConfigError(f"a rescale measured on {self.rows} tail rows was asked for; expected at least 1")

    def require(self, adapter: Adapter, split: int) -> None:
        """Raise ``ConfigError`` when no layer from ``split`` on keeps keys and values, or no input is predicted."""
        if not adapter.predicts_inputs:
            raise ConfigError(
                "a rescale compares true with predicted block inputs, and SwiftKV's projections and KVA heads write "
                "from the split state without predicting any; leave the rescale out of this arm"
            )
        if all(kind == LINEAR for kind in adapter.kinds[split:]):
            raise ConfigError(
                f"a rescale needs an attention layer from split {split} on, and this model has only recurrent ones "
                "there; take a lower split or leave the rescale out"
            )

    def measure(
        self, adapter: Adapter, layer: int, true: Tensor, predicted: Tensor, heads: int, map_row: int = 0
    ) -> LayerScales:
        """Scales of one layer from true and predicted block inputs, ``[1, R, hidden]`` each, of the same tail rows.

        Per key-value head (of ``heads``) the mean over rows of the true norm over the predicted one, in fp64. A row
        whose predicted norm is zero says nothing about a head and is left out of its mean; a head without any other
        row keeps the scale 1. R may be less than ``rows`` on a short tail, not zero (``ConfigError``). map_row: what
        predicting a row took. Raises ``NumericsError`` for a scale that is not finite.
        """
        count = int(true.shape[1])
        if count == 0:
            raise ConfigError("a rescale was asked for a prompt without a tail; expected at least one tail row")
        written, guessed = adapter.writes(layer, true), adapter.writes(layer, predicted)
        scales = {part: _mean_ratio(_norms(written[part], heads), _norms(guessed[part], heads)) for part in self.parts}
        for part, scale in scales.items():
            if not bool(torch.isfinite(scale).all()):
                raise NumericsError(f"the {part} scale of layer {layer} is not finite; check the maps and the model")
        return LayerScales(scales, count, rescale_macs(count, adapter.hidden, int(written["value"].shape[-1]), map_row))


def rescale_rows(cache: RowCache, layer: int, rows: RowIndex, scales: Mapping[Part, Tensor]) -> None:
    """Multiply what ``layer`` holds at ``rows`` by the scales of its heads, in place, rounded once.

    Keys may be rotated already: a rotation keeps the factor.
    """
    for part, scale in scales.items():
        stored = cache.keys[layer] if part == "key" else cache.values[layer]
        if stored is None:
            raise NumericsError(f"layer {layer} of the cache was rescaled before any row was written to it")
        index, factor = beside(rows, stored.device), scale.to(stored.device)[None, :, None, None]
        stored[:, :, index] = (stored[:, :, index] * factor).to(stored.dtype)


def _norms(flat: Tensor, heads: int) -> Tensor:
    """Length of each head's vector, fp64 ``[B, R, heads]``."""
    return flat.unflatten(-1, (heads, -1)).double().norm(dim=-1)


def _mean_ratio(true: Tensor, predicted: Tensor) -> Tensor:
    known = predicted > 0
    ratios = torch.where(known, true / predicted, 0.0).sum(dim=(0, 1))
    counts = known.sum(dim=(0, 1))
    return torch.where(counts > 0, ratios / counts, 1.0).float()
