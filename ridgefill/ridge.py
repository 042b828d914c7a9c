"""From moments to ridge maps in closed form, and the choice of ``lam`` on held-out text (METHOD section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.errors import NumericsError
from ridgefill.maps import RidgeMaps
from ridgefill.moments import Moments


@dataclass(frozen=True)
class Factorised:
    """One eigendecomposition of a split's Gram matrix, shared by every late layer and every ``lam``.

    values: fp64 ``[width]`` ascending. vectors: fp64 ``[width, width]``. projected: fp32 ``[width, n * hidden]``, the
    cross-moments in the eigenbasis: computed in fp64, as small ones are what is left of large ones, then rounded one by
    one.
    """

    moments: Moments
    split: int
    values: Tensor
    vectors: Tensor
    projected: Tensor

    def alpha(self, lam: float) -> float:
        """Penalty ``lam * trace(Gram) / d``."""
        return lam * float(self.values.sum()) / self.values.numel()

    def condition(self, lam: float) -> float:
        """Condition number of the penalised system."""
        alpha = self.alpha(lam)
        return (float(self.values[-1]) + alpha) / (float(self.values[0]) + alpha)

    def record(self, lam: float) -> dict[str, float | int]:
        """What map files say about a fit with this ``lam``."""
        return {"lam": lam, "alpha": self.alpha(lam), "condition": self.condition(lam), "rows": self.moments.rows}


def factorise(moments: Moments, split: int) -> Factorised:
    """Eigendecomposition of the split's Gram matrix. Raises ``NumericsError`` when the fit would be singular.

    A penalised system can always be factorised, so success proves nothing: the test is on the Gram matrix itself.
    """
    gram = moments.gram[split]
    width = gram.shape[0]
    if moments.rows <= width:
        raise NumericsError(
            f"split {split} was captured on {moments.rows} rows for a map of width {width}; a unique fit needs more "
            "rows than columns. Raise capture.tokens."
        )
    values, vectors = torch.linalg.eigh(gram)
    # Products were formed in fp32, so eigenvalues below its rounding say nothing.
    floor = torch.finfo(torch.float32).eps * float(gram.diagonal().median())
    if not bool(torch.isfinite(values).all()) or float(values[0]) <= floor:
        raise NumericsError(
            f"the Gram matrix of split {split} is singular: its smallest eigenvalue is {float(values[0]):.3g} where "
            f"more than {floor:.3g} is needed. Capture on more varied text, or check for a constant channel."
        )
    return Factorised(moments, split, values, vectors, (vectors.T @ moments.cross[split]).float())


def solve(factors: Factorised, lam: float, *, mapped_split_layer: bool = True) -> RidgeMaps:
    """Ridge maps of every late layer for one ``lam``, fp32.

    ``A_l^T = (G + alpha I)^-1 C_l``, ``b_l = mean_l - A_l mean_S``. The split layer's own map is included, as published
    map files hold one map per late layer; where the state is its block input, its cross-moment is the Gram matrix.
    An offset belongs to the weights as they are rounded, so that mean states give mean inputs to the last digits.
    """
    moments, split = factors.moments, factors.split
    damped = 1.0 / (factors.values + factors.alpha(lam))
    # The eigenvectors are orthonormal: a product with them in fp32 loses no more than its result's own rounding.
    scaled = (factors.vectors * damped).float().T
    width = moments.mean[split].numel()
    weights: dict[int, Tensor] = {}
    if mapped_split_layer and not moments.state_mean:
        weights[split] = (factors.vectors * factors.values).float() @ scaled
    for place, layer in enumerate(moments.targets(split)):
        if layer > split or mapped_split_layer:
            weights[layer] = factors.projected[:, place * width : (place + 1) * width].T @ scaled
    mean = moments.mean_state(split)
    biases = {layer: (moments.mean[layer] - weight.double() @ mean).float() for layer, weight in weights.items()}
    return RidgeMaps(split, weights, biases)


def residual_shares(factors: Factorised, lam: float) -> dict[int, float]:
    """Share of each target layer's variance that its map leaves unexplained on the calibration rows.

    With ``P`` the projected cross-moments: residual = scatter - sum(P^2 (v + 2 alpha) / (v + alpha)^2).
    """
    moments = factors.moments
    alpha = factors.alpha(lam)
    gain = (factors.values + 2 * alpha) / (factors.values + alpha).square()
    explained = gain @ factors.projected.double().square()
    width = moments.mean[factors.split].numel()
    shares = {}
    for place, layer in enumerate(moments.targets(factors.split)):
        total = float(moments.scatter[layer])
        part = float(explained[place * width : (place + 1) * width].sum())
        shares[layer] = (total - part) / total if total > 0 else 0.0
    return shares


def best_lam(lams: Sequence[float], scores: Sequence[float]) -> float:
    """The ``lam`` with the highest score; ties go to the larger penalty."""
    return max(zip(scores, lams, strict=True))[1]
