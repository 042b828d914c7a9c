"""From a model's sizes and family to what each of its layers costs, as the stock modules and the fill compute it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ridgefill.cost.geometry import Geometry
from ridgefill.cost.layer import Indexer, Layer, Scan
from ridgefill.errors import ConfigError

if TYPE_CHECKING:
    from ridgefill.sizes import ModelGeometry

GATED = ("qwen3_5", "qwen3_next", "qwen4_exp")
"""Families whose attention has an output gate, which doubles the query projection."""
FUSED = ("qwen3_next",)
"""Families whose recurrent layers project the output gate with what feeds the state, so for filled rows too."""


def geometry_of(sizes: ModelGeometry, family: str) -> Geometry:
    """The cost model's geometry of a model. Raises ConfigError for a hybrid of a family that has none."""
    plain = Geometry(
        layers=sizes.layers,
        hidden=sizes.hidden,
        q=sizes.heads * sizes.head_dim,
        kv=sizes.kv_heads * sizes.head_dim,
        ff=sizes.intermediate,
        windows=sizes.windows,
    )
    if family not in GATED:
        if sizes.recurrent or sizes.experts or sizes.streams:
            raise ConfigError(f"a model of family {family} has attention layers and MLPs only; expected no other sizes")
        return plain
    if sizes.recurrent is None:
        raise ConfigError(f"a model of family {family} has recurrent layers; expected their sizes as `recurrent`")
    each = tuple(_layer(sizes, family, number) for number in range(sizes.layers))
    streams = sizes.streams.count if sizes.streams else 1
    mixer = 2 * streams * sizes.hidden * sizes.streams.rank if sizes.streams else 0
    return Geometry(plain.layers, plain.hidden, plain.q, plain.kv, plain.ff, plain.windows, each, streams, mixer)


def _layer(sizes: ModelGeometry, family: str, number: int) -> Layer:
    mix = 0
    if sizes.streams:
        width = sizes.streams.count * sizes.hidden
        mix = 2 * width * sizes.streams.rank + width * sizes.streams.count
    shared = Layer(0, 0, mlp=_mlp(sizes, number), mix=mix, streams=2 * mix, ngrams=_ngrams(sizes, number))
    if sizes.attends(number):
        return _attention(sizes, shared)
    return _recurrent(sizes, family, shared)


def _attention(sizes: ModelGeometry, shared: Layer) -> Layer:
    d, q, kv = sizes.hidden, sizes.heads * sizes.head_dim, sizes.kv_heads * sizes.head_dim
    query, output = 2 * d * q, d * q
    if sizes.indexer is None:
        return replace(shared, writes=2 * d * kv, rest=query + output, pair=2 * q, asks=query)
    one = sizes.indexer
    width = one.heads * one.head_dim
    keys, queries = d * one.head_dim, d * width
    return replace(
        shared,
        writes=2 * d * kv + keys,
        rest=query + output + queries,
        pair=2 * q,
        # Both the queries and the indexer ask for the block input, which mixes the streams each time.
        asks=query + keys + queries + 2 * shared.mix,
        indexer=Indexer(width, one.block, one.budget // one.block),
    )


def _recurrent(sizes: ModelGeometry, family: str, shared: Layer) -> Layer:
    if sizes.recurrent is None:
        raise ConfigError("a recurrent layer was counted without its sizes; expected `recurrent`")
    one = sizes.recurrent
    key, value = one.key_heads * one.key_dim, one.value_heads * one.value_dim
    fed = sizes.hidden * (2 * key + value + 2 * one.value_heads)
    gate = output = sizes.hidden * value
    scan = Scan(one.value_heads, one.key_dim, one.value_dim, (2 * key + value) * one.conv_kernel)
    if family in FUSED:
        return replace(shared, writes=fed + gate, rest=output, scan=scan)
    return replace(shared, writes=fed, rest=gate + output, scan=scan)


def _mlp(sizes: ModelGeometry, number: int) -> int:
    """The MLP of a row; with experts the router, those it is routed to, the shared one and its gate."""
    if sizes.experts is None:
        return 3 * sizes.hidden * sizes.intermediate
    one = sizes.experts
    if number in one.dense_layers:
        return 3 * sizes.hidden * one.dense
    used = one.per_token * one.intermediate + one.shared
    return sizes.hidden * (one.count + 3 * used + (one.shared > 0))


def _ngrams(sizes: ModelGeometry, number: int) -> int:
    """Token features projected to a value and to a key for each stream, then convolved."""
    if sizes.ngrams is None or sizes.streams is None or number not in sizes.ngrams.layers:
        return 0
    width = sizes.streams.count * sizes.hidden
    return sizes.ngrams.features * (width + sizes.hidden) + width * sizes.ngrams.conv_kernel
