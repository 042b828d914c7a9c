"""Seeded KVA heads for a model of the families, and the split they read."""

from dataclasses import replace

import torch

from ridgefill.models.kva import KvaContext, KvaHeads, layout

LAYERS, SPLIT = 6, 3


def random_heads(adapter, blocks=0, **changed):
    """Seeded heads for this model, moved from every neutral value; with a context of so many blocks."""
    context = KvaContext(3 * adapter.head_dim, blocks, 3, 40) if blocks else None
    generator = torch.Generator().manual_seed(blocks)
    shapes = layout(range(SPLIT, LAYERS), adapter.kv_heads * adapter.head_dim, adapter.hidden, context)
    tensors = {
        name: torch.randn(shape, generator=generator) * (0.2 if len(shape) == 1 else shape[-1] ** -0.5)
        + (len(shape) == 1 and "bias" not in name)
        for name, shape in shapes.items()
    }
    kind = "ctx" if blocks else "linear"
    return replace(KvaHeads(SPLIT, LAYERS, tensors, context=context, kind=kind), **changed)
