"""Multiply-accumulates of prefill, ceilings, break-evens and compute matching (paper section 2.5).

A row in a layer of attention and an MLP costs ``2 d q + 2 d kv + 3 d ff`` plus ``2 q v`` for attention over the ``v``
rows it sees, itself included, at most its window in a windowed layer. A filled row in a late layer costs ``2 d kv``,
plus ``d d`` for its map; in a windowed layer, rows that no exact row can see are not filled. Layers of other kinds have
their own numbers (:mod:`ridgefill.cost.layer`), made from a model's sizes by :func:`geometry_of`. Work is counted as
this project's fill path executes it, attention over visible pairs only; embedding, output head and elementwise work
are left out. All counts are exact integers for one prompt.

The published break-evens with POP and cost ratios come out only when every late layer has a map, the split
layer included (``mapped_split_layer=True``, the default, as the published map files have it). Break-evens
are published as the first multiple of 100 tokens at which the fill is cheaper (14,334 reads 14.4K).
"""

from __future__ import annotations

from ridgefill.cost.corrections import correction_macs
from ridgefill.cost.families import geometry_of
from ridgefill.cost.geometry import Geometry
from ridgefill.cost.layer import Indexer, Layer, Scan
from ridgefill.cost.matching import FOREVER, crossover_with_pop, match_no_fill_tail, pop_macs
from ridgefill.cost.parts import Fill, Part, exact_parts, fill_parts
from ridgefill.cost.prefill import exact_macs, fill_macs
from ridgefill.cost.selection import PROBING, RANKING_LAYERS, probe_macs, ranking_layers, ranking_macs, spread_rows
from ridgefill.cost.shares import ceiling, layer_share

__all__ = [
    "FOREVER",
    "PROBING",
    "RANKING_LAYERS",
    "Fill",
    "Geometry",
    "Indexer",
    "Layer",
    "Part",
    "Scan",
    "ceiling",
    "correction_macs",
    "crossover_with_pop",
    "exact_macs",
    "exact_parts",
    "fill_macs",
    "fill_parts",
    "geometry_of",
    "layer_share",
    "match_no_fill_tail",
    "pop_macs",
    "probe_macs",
    "ranking_layers",
    "ranking_macs",
    "spread_rows",
]
