"""The interface every architecture family implements: embed, run a layer on some rows, write a filled row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.models.cache import RowCache, RowIndex, RowView


@dataclass(frozen=True)
class Rows:
    """Which rows a layer computes and what they may look at; the same value serves every layer of a pass.

    positions: int64 ``[R]``, ascending. index: where they are written. stop: keys end before this position.
    rotary: cosine and sine, each ``[1, R, head_dim]``. mask: boolean ``[1 or B, 1, R, keys]``, True = visible;
    None means plain causal attention among the rows themselves (or a single new row that sees everything).
    """

    positions: Tensor
    index: RowIndex
    stop: int
    rotary: tuple[Tensor, Tensor]
    mask: Tensor | None


class Adapter(ABC):
    """One architecture. ``layers`` and ``hidden`` are its depth and width; tensors are ``[B, rows, hidden]``."""

    layers: int
    hidden: int
    device: torch.device
    dtype: torch.dtype
    fingerprint: dict[str, object]

    @abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Token ids int64 ``[B, N]`` to the input of layer 0, ``[B, N, hidden]``."""

    @abstractmethod
    def rotary(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine for int64 ``[R]`` positions, each ``[1, R, head_dim]``."""

    @abstractmethod
    def run_layer(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """Run one layer in full on the given rows: write their cache entries, attend, return the next input."""

    @abstractmethod
    def write_filled(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> None:
        """Write the cache entries of filled rows from a predicted layer input, and nothing else (METHOD 3)."""

    @abstractmethod
    def writes(self, layer: int, x: Tensor) -> dict[str, Tensor]:
        """What a layer input would write: ``key`` before rotary and ``value``, each ``[B, R, kv_heads * head_dim]``."""

    @abstractmethod
    def attention_received(self, layer: int, x: Tensor, rows: Rows, cache: RowCache) -> Tensor:
        """Attention that each position before ``rows.stop`` receives from the given rows, fp32 ``[stop]``.

        Softmax in fp32, summed over the rows and the heads of ``layer`` (paper section 2.4).
        """

    @abstractmethod
    def logits(self, x: Tensor) -> Tensor:
        """Output of the last layer to logits ``[B, R, vocabulary]``."""

    def new_cache(self, capacity: int) -> RowCache:
        """An empty cache for ``capacity`` positions."""
        return RowCache(self.layers, capacity)

    def rows(self, positions: Tensor, *, start: int = 0, attend: bool = True) -> Rows:
        """The rows at ``positions``, which see every position from ``start`` up to their own.

        attend: False for rows that are only written (filled ones): their mask would grow with rows x tokens.
        """
        first, last = int(positions[0]), int(positions[-1])
        contiguous = last - first + 1 == positions.numel()
        index: RowIndex = slice(first, last + 1) if contiguous else positions
        plain = contiguous and (first == start or positions.numel() == 1)
        mask = None if plain or not attend else causal_mask(positions, start, last + 1)
        return Rows(positions, index, last + 1, self.rotary(positions), mask)


def causal_mask(positions: Tensor, start: int, stop: int) -> Tensor:
    """Boolean ``[1, 1, R, stop - start]``: query at ``positions[i]`` sees keys ``start .. positions[i]``.

    Written out because attention kernels align a causal flag to the top left when there are fewer queries
    than keys, which silently hides the wrong keys.
    """
    keys = torch.arange(start, stop, device=positions.device)
    return (keys[None, :] <= positions[:, None])[None, None]


def view(cache: RowCache, rows: Rows) -> RowView:
    """The cache as one call of a stock attention module may see it."""
    return RowView(cache, rows.index, rows.stop)
