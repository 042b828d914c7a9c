"""Ranking prefix rows by a number for each: the most first, ties to the lower position."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache


def ranked(received: Tensor, prefix: int) -> tuple[int, ...]:
    """Positions below ``prefix`` by ``received`` (``[prefix or more]``), the most first; ties to the lower position."""
    order = torch.sort(received[:prefix], descending=True, stable=True).indices
    return tuple(int(row) for row in order)


def received_attention(adapter: Adapter, cache: RowCache, inputs: Mapping[int, Tensor], first: int, end: int) -> Tensor:
    """Attention that positions before ``end`` receive from the rows ``first`` to ``end`` (excluded), fp32 ``[end]``.

    inputs: layer -> its inputs on those rows, ``[1, end - first, width]``. Softmax in fp32, summed over the rows, the
    heads and the layers given (paper section 2.4). The cache may hold rows from ``end`` on; nobody looks at them.
    """
    rows = adapter.rows(torch.arange(first, end, device=adapter.device))
    received = torch.zeros(end, dtype=torch.float32, device=adapter.device)
    for layer, x in inputs.items():
        received += adapter.attention_received(layer, x, rows, cache)
    return received
