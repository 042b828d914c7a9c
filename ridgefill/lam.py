"""How well maps write a cache: cosine between what each layer writes from predicted and from true inputs.

``lam`` is the one of a grid whose maps write best (METHOD section 2), for a split or for each of its layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.map_options import PLAIN, LamFor, RidgeOptions
from ridgefill.models.base import Adapter
from ridgefill.passes import run_exact
from ridgefill.ridge import Factorised, best_lam
from ridgefill.ridge_options import Maps, solve_with


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
    adapter: Adapter, texts: Iterable[list[int]], candidates: Mapping[tuple[int, float], Maps]
) -> list[CosineRow]:
    """Cosines for every candidate (split, lam) over held-out token pieces.

    Components: what the layer writes (``Adapter.writes``: ``key`` after norm and before rotary and ``value``, whole
    vectors over all key-value heads; ``qkv``, ``b`` and ``a`` of a recurrent layer), and ``input``, the block input
    itself (the second criterion). Layers whose rows are predicted: those above the split, and the split layer where
    the split state is not its block input.
    """
    above = int(adapter.width == adapter.hidden)
    sums: dict[tuple[int, float, int, str], float] = {}
    rows = 0
    first = min(split for split, _ in candidates)
    for piece in texts:
        with torch.inference_mode():
            inputs = run_exact(adapter, torch.tensor([piece]), keep=range(first, adapter.layers)).inputs
            for layer in range(first + above, adapter.layers):
                true_input = adapter.block_input(layer, inputs[layer])
                truth = {"input": true_input, **adapter.writes(layer, true_input)}
                for (split, lam), maps in candidates.items():
                    if layer < split + above:
                        continue
                    predicted = maps.predict(layer, inputs[split])
                    written = {"input": predicted, **adapter.writes(layer, predicted)}
                    for component, value in truth.items():
                        key = (split, lam, layer, component)
                        sums[key] = sums.get(key, 0.0) + _cosine_sum(written[component], value)
        rows += len(piece)
    return [CosineRow(*key, total / rows, rows) for key, total in sorted(sums.items())]


def mean_write_cosine(rows: Iterable[CosineRow], split: int, lam: float, layer: int | None = None) -> float:
    """The selection score: mean over late layers, or of one ``layer``, of the cosines of what is written.

    1 when no layer is predicted (a split at the last layer): any ``lam`` writes the same cache then.
    """
    scores = [
        row.cosine
        for row in rows
        if (row.split, row.lam) == (split, lam) and row.component != "input" and layer in (None, row.layer)
    ]
    return sum(scores) / len(scores) if scores else 1.0


def lam_curve(
    adapter: Adapter,
    factors: Mapping[int, Factorised],
    grid: Sequence[float],
    texts: Iterable[list[int]],
    options: RidgeOptions = PLAIN,
) -> list[CosineRow]:
    """Cosines of the maps of every split and every ``lam`` of ``grid``, in one pass over held-out token pieces."""
    candidates = {
        (split, lam): solve_with(fitted, lam, options).to(adapter.dtype, adapter.device)
        for split, fitted in factors.items()
        for lam in grid
    }
    return cache_write_cosines(adapter, texts, candidates)


def choose_lam(rows: Sequence[CosineRow], split: int, grid: Sequence[float], layer: int | None = None) -> float:
    """The ``lam`` that writes best for a split, or for one ``layer`` of it; ties go to the larger penalty."""
    return best_lam(grid, [mean_write_cosine(rows, split, lam, layer) for lam in grid])


def choose_lams(
    rows: Sequence[CosineRow], split: int, grid: Sequence[float], layers: int, lam_for: LamFor
) -> dict[int, float]:
    """The ``lam`` of every layer from ``split`` on: one for all, or one for each predicted ``layer``."""
    lams = dict.fromkeys(range(split, layers), choose_lam(rows, split, grid))
    if lam_for == "layer":
        predicted = sorted({row.layer for row in rows if row.split == split})
        lams |= {layer: choose_lam(rows, split, grid, layer) for layer in predicted}
    return lams


def _cosine_sum(a: Tensor, b: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(a.float(), b.float(), dim=-1).double().sum())
