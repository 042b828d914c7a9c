"""How well maps write a cache: cosine between what each layer writes from predicted and from true inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.maps import RidgeMaps
from ridgefill.models.base import Adapter
from ridgefill.passes import run_exact


@dataclass(frozen=True)
class CosineRow:
    """Mean cosine over held-out rows for one split, ``lam``, late layer and component."""

    split: int
    lam: float
    layer: int
    component: str
    cosine: float
    rows: int


def cache_write_cosines(
    adapter: Adapter, texts: Iterable[list[int]], candidates: Mapping[tuple[int, float], RidgeMaps]
) -> list[CosineRow]:
    """Cosines for every candidate (split, lam) over held-out token pieces.

    Components: ``key`` (after norm, before rotary) and ``value``, whole vectors over all key-value heads, and
    ``input``, the layer input itself (the second criterion). Layers above the split, whose rows are predicted.
    """
    sums: dict[tuple[int, float, int, str], float] = {}
    rows = 0
    first = min(split for split, _ in candidates)
    for piece in texts:
        with torch.inference_mode():
            inputs = run_exact(adapter, torch.tensor([piece]), keep=range(first, adapter.layers)).inputs
            for layer in range(first + 1, adapter.layers):
                true_input = adapter.block_input(layer, inputs[layer])
                truth = {"input": true_input, **adapter.writes(layer, true_input)}
                for (split, lam), maps in candidates.items():
                    if split >= layer:
                        continue
                    predicted = maps.predict(layer, inputs[split])
                    written = {"input": predicted, **adapter.writes(layer, predicted)}
                    for component, value in truth.items():
                        key = (split, lam, layer, component)
                        sums[key] = sums.get(key, 0.0) + _cosine_sum(written[component], value)
        rows += len(piece)
    return [CosineRow(*key, total / rows, rows) for key, total in sorted(sums.items())]


def mean_write_cosine(rows: Iterable[CosineRow], split: int, lam: float) -> float:
    """The selection score: mean over late layers of the key and value cosines.

    1 when no layer is predicted (a split at the last layer): any ``lam`` writes the same cache then.
    """
    scores = [row.cosine for row in rows if (row.split, row.lam) == (split, lam) and row.component in ("key", "value")]
    return sum(scores) / len(scores) if scores else 1.0


def _cosine_sum(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.float(), b.float(), dim=-1).double().sum())
