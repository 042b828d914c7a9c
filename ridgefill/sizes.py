"""Sizes of a decoder as configurations state them: frozen values, each field checked.

:mod:`ridgefill.settings` puts them into a model's configuration; the cost model (:mod:`ridgefill.cost`)
counts from them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

Count = Annotated[int, Field(ge=1, strict=True)]
Index = Annotated[int, Field(ge=0, strict=True)]


def increasing(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values as they are; ValueError unless each is above the one before."""
    if any(low >= high for low, high in pairwise(values)):
        raise ValueError("must be strictly increasing")
    return values


class Frozen(BaseModel):
    """Base of every configuration value: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def _absent(value: object) -> bool:
    """Whether a key is left out of what is written, so that files from before it read the same."""
    return value is None


class RecurrentGeometry(Frozen):
    """Shape of the Gated DeltaNet layers of a hybrid: all but every ``attention_every``-th, or ``attention_layers``."""

    attention_every: Count | None = Field(default=None, exclude_if=_absent)
    key_heads: Count
    value_heads: Count
    key_dim: Count
    value_dim: Count
    conv_kernel: Count
    attention_layers: tuple[Index, ...] | None = Field(default=None, exclude_if=_absent)

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.attention_every is None) == (self.attention_layers is None):
            raise ValueError("expected either attention_every or attention_layers")
        if self.attention_layers is not None:
            increasing(self.attention_layers)
        return self

    def attends(self, layer: int) -> bool:
        """Whether ``layer`` is one of attention."""
        if self.attention_layers is not None:
            return layer in self.attention_layers
        return (layer + 1) % (self.attention_every or 1) == 0


class ExpertGeometry(Frozen):
    """Experts in place of MLPs: ``per_token`` of ``count`` serve a row, each ``intermediate`` wide, and a shared one.

    dense_layers: layers that keep an MLP, ``dense`` wide.
    """

    count: Count
    per_token: Count
    intermediate: Count
    shared: Index = 0
    dense_layers: tuple[Index, ...] = ()
    dense: Index = 0

    _layers = field_validator("dense_layers")(increasing)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.per_token > self.count:
            raise ValueError(f"per_token ({self.per_token}) must not exceed count ({self.count})")
        if bool(self.dense_layers) != bool(self.dense):
            raise ValueError("dense_layers and dense are given together or not at all")
        return self


class StreamGeometry(Frozen):
    """Hyper-connections: ``count`` residual streams, mixed by weights of the given ``rank``."""

    count: Annotated[int, Field(ge=2, strict=True)]
    rank: Count


class IndexerGeometry(Frozen):
    """Sparse attention: an indexer picks ``budget`` rows in blocks of ``block``, by ``heads`` queries and one key."""

    heads: Count
    head_dim: Count
    budget: Count
    block: Count

    @model_validator(mode="after")
    def _whole_blocks(self) -> Self:
        if self.budget % self.block:
            raise ValueError(f"budget ({self.budget}) must be a multiple of block ({self.block})")
        return self


class NgramGeometry(Frozen):
    """Layers that add ``features`` of the tokens themselves to their input, through a convolution."""

    layers: Annotated[tuple[Index, ...], Field(min_length=1)]
    features: Count
    conv_kernel: Count

    _layers = field_validator("layers")(increasing)


class WindowGeometry(Frozen):
    """Layers whose rows see only the last ``size`` positions, their own included: all but ``full_layers``."""

    size: Count
    full_layers: tuple[Index, ...]

    _layers = field_validator("full_layers")(increasing)


class ModelGeometry(Frozen):
    """Sizes of a decoder: counts of layers and heads, widths in elements, ``context`` in tokens."""

    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Count
    intermediate: Count
    vocab: Count
    context: Count
    recurrent: RecurrentGeometry | None = None
    windowed: WindowGeometry | None = None
    experts: ExpertGeometry | None = Field(default=None, exclude_if=_absent)
    streams: StreamGeometry | None = Field(default=None, exclude_if=_absent)
    indexer: IndexerGeometry | None = Field(default=None, exclude_if=_absent)
    ngrams: NgramGeometry | None = Field(default=None, exclude_if=_absent)

    @model_validator(mode="after")
    def _grouped_heads(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        return self

    @model_validator(mode="after")
    def _layers_exist(self) -> Self:
        named = {
            "windowed.full_layers": self.windowed.full_layers if self.windowed else (),
            "recurrent.attention_layers": (self.recurrent.attention_layers or ()) if self.recurrent else (),
            "experts.dense_layers": self.experts.dense_layers if self.experts else (),
            "ngrams.layers": self.ngrams.layers if self.ngrams else (),
        }
        for key, layers in named.items():
            if any(layer >= self.layers for layer in layers):
                raise ValueError(f"{key} names a layer outside 0 to {self.layers - 1}")
        return self

    @model_validator(mode="after")
    def _ngrams_need_streams(self) -> Self:
        if self.ngrams is not None and self.streams is None:
            raise ValueError("ngrams add to the streams of hyper-connections; expected streams too")
        return self

    def attends(self, layer: int) -> bool:
        """Whether ``layer`` is one of attention, not a recurrent one."""
        return self.recurrent is None or self.recurrent.attends(layer)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """Per layer the positions that a row sees, None for all; empty for a model without windows."""
        if self.windowed is None:
            return ()
        return tuple(None if layer in self.windowed.full_layers else self.windowed.size for layer in range(self.layers))
