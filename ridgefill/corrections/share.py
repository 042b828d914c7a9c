"""``rho``: the filled rows' share of a recurrent state (paper section 2.3), per value head.

A row's weight in the state is the product of the gates ``e^g`` of the rows after it. With ``D`` all rows' weights and
``N`` the filled rows', each row takes ``D <- e^g D + 1`` and ``N <- e^g N + [row filled]``.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Share:
    """Weights after some rows: ``total`` (D) and ``filled`` (N), fp64 ``[value_heads]`` each."""

    total: Tensor
    filled: Tensor

    @classmethod
    def empty(cls, value_heads: int, device: torch.device) -> Share:
        """Before the first row."""
        zero = torch.zeros(value_heads, dtype=torch.float64, device=device)
        return cls(zero, zero)

    def after(self, decay: Tensor, is_filled: Tensor) -> Share:
        """The weights after further rows, in closed form.

        decay: ``g`` of each row, ``[R, value_heads]``, at most 0. is_filled: boolean ``[R]``.
        """
        g = decay.double()
        later = torch.cat([g[1:], torch.zeros_like(g[:1])]).flip(0).cumsum(0).flip(0)
        weights, kept = later.exp(), g.sum(0).exp()
        counted = weights * is_filled[:, None]
        return Share(kept * self.total + weights.sum(0), kept * self.filled + counted.sum(0))

    @property
    def rho(self) -> Tensor:
        """``N / D`` clipped to 0 .. 1, fp64 ``[value_heads]``; 0 before the first row."""
        return torch.where(self.total > 0, self.filled / self.total, 0.0).clamp(0.0, 1.0)
