"""The gated delta rule in chunks, for training: the stock function's numbers in half its time.

The stock scan writes each chunk into one tensor, so that every chunk's gradient is as long as the sequence.
"""

from __future__ import annotations

import torch
from torch import Tensor

CHUNK = 16
"""Rows of a chunk: short ones are quickest for the narrow heads of a tiny model on a CPU."""


def gated_delta_rule(query: Tensor, key: Tensor, value: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """Outputs ``[B, H, L, value_dim]`` of a scan that starts from an empty state, all in fp32.

    query, key: ``[B, H, L, key_dim]``, normed and scaled. value: ``[B, H, L, value_dim]``. decay: logarithm of what a
    row leaves of the state, ``[B, H, L]``. beta: share of a row's value that is written, ``[B, H, L]``.
    """
    batch, heads, length, _ = query.shape
    count = -(-length // CHUNK)

    def chunks(rows: Tensor) -> Tensor:
        rows = rows.reshape(batch * heads, length, -1)
        rows = torch.nn.functional.pad(rows, (0, 0, 0, count * CHUNK - length))
        return rows.reshape(batch * heads, count, CHUNK, -1)

    query, key, value, share = chunks(query), chunks(key), chunks(value), chunks(beta)
    total = chunks(decay).squeeze(-1).cumsum(-1)
    later = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
    between = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(later, float("-inf")).exp()
    grown = total.exp().unsqueeze(-1)
    system = ((key * share) @ key.mT) * between
    inside = (query @ key.mT) * between
    solved = torch.linalg.solve_triangular(
        system, torch.cat([value * share, key * (share * grown)], -1), upper=False, unitriangular=True
    )
    written, read = solved.split([value.shape[-1], key.shape[-1]], -1)
    last = total[..., -1:]
    kept = (key * (last - total).exp().unsqueeze(-1)).mT
    parts = (part.unbind(1) for part in (written, read, query * grown, kept, inside, last.exp().unsqueeze(-1)))
    state = value.new_zeros(batch * heads, key.shape[-1], value.shape[-1])
    outputs = []
    for new, old, asking, keeping, within, left in zip(*parts, strict=True):
        fresh = torch.baddbmm(new, old, state, alpha=-1)
        outputs.append(torch.baddbmm(asking @ state, within, fresh))
        state = torch.baddbmm(state * left, keeping, fresh)
    return torch.cat(outputs, 1)[:, :length].reshape(batch, heads, length, -1)
