"""Ridge maps beyond the paper, in closed form from the same moments: shrunk towards the identity, of low rank.

Towards the identity, the penalty is on ``D = A - I``: the ridge of ``y - x`` on ``x``, ``D^T = (G + alpha I)^-1
(C - G)``, which is ``A^T = (G + alpha I)^-1 (C + alpha I)``. Rank ``k`` is reduced-rank regression: of all maps of that
rank, the one with the least penalised squared error. It is the ridge solution ``B`` projected on the ``k`` leading
eigenvectors of ``B^T (G + alpha I) B``, as ridge is least squares on rows extended with ``sqrt(alpha) I`` (Izenman
1975). With both, ``D`` has the low rank, and the state itself passes whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.maps import RidgeMaps
from ridgefill.ridge import Factorised, solve


@dataclass(frozen=True)
class LowRankMaps:
    """Maps kept as two factors: ``x -> left (right x) + bias``, plus ``x`` itself when ``identity``.

    left[l]: ``[d_out, k]``. right[l]: ``[k, d_in]``. biases[l]: ``[d_out]``. They take the place of ``RidgeMaps`` and
    cost ``k (d_in + d_out)`` a row instead of ``d_in d_out``.
    """

    split: int
    left: Mapping[int, Tensor]
    right: Mapping[int, Tensor]
    biases: Mapping[int, Tensor]
    identity: bool = False

    @property
    def weights(self) -> Mapping[int, Tensor]:
        """The same maps multiplied out when asked for, ``[d_out, d_in]``, as files and checks want them."""
        return _Dense(self)

    def predict(self, layer: int, state: Tensor) -> Tensor:
        """Split state ``[..., d_in]`` to the predicted block input of ``layer``, ``[..., d_out]``, in its type."""
        linear = torch.nn.functional.linear
        added = linear(linear(state, self.right[layer]), self.left[layer], self.biases[layer])
        return state + added if self.identity else added

    def to(self, dtype: torch.dtype, device: torch.device) -> LowRankMaps:
        """The same maps in another type and place."""
        left, right, biases = (
            {layer: tensor.to(device, dtype) for layer, tensor in part.items()}
            for part in (self.left, self.right, self.biases)
        )
        return LowRankMaps(self.split, left, right, biases, self.identity)


@dataclass(frozen=True)
class _Dense(Mapping[int, Tensor]):
    maps: LowRankMaps

    def __getitem__(self, layer: int) -> Tensor:
        product = self.maps.left[layer] @ self.maps.right[layer]
        return product + torch.eye(len(product)).to(product) if self.maps.identity else product

    def __iter__(self) -> Iterator[int]:
        return iter(self.maps.left)

    def __len__(self) -> int:
        return len(self.maps.left)


Maps = RidgeMaps | LowRankMaps


def solve_with(factors: Factorised, lam: float, options: RidgeOptions = PLAIN) -> Maps:
    """Maps of every late layer for one ``lam`` under ``options``, fp64 arithmetic, fp32 results.

    Offsets are unpenalised. Raises ``ConfigError`` for options that the widths do not allow.
    """
    moments, split = factors.moments, factors.split
    mean = moments.mean_state(split)
    options.require(mean.numel(), moments.mean[split].numel())
    identity = options.towards == "identity"
    if not identity and options.rank is None:
        return solve(factors, lam)
    damped = 1.0 / (factors.values + factors.alpha(lam))
    left, right, biases = {}, {}, {}
    for layer, cross in _projected(factors):
        aim = cross - _projected_gram(factors) if identity else cross
        if options.rank is None:
            right[layer] = (factors.vectors @ (damped[:, None] * aim)).T
            moved = right[layer] @ mean
        else:
            left[layer], right[layer] = _reduced(factors.vectors, damped, aim, options.rank)
            moved = left[layer] @ (right[layer] @ mean)
        biases[layer] = (moments.mean[layer] - moved - (mean if identity else 0.0)).float()
    if options.rank is None:
        one = torch.eye(mean.numel()).to(mean)
        return RidgeMaps(split, _single({layer: weight + one for layer, weight in right.items()}), biases)
    return LowRankMaps(split, _single(left), _single(right), biases, identity)


def solve_by_layer(factors: Factorised, lams: Mapping[int, float], options: RidgeOptions = PLAIN) -> Maps:
    """As ``solve_with``, every layer with the ``lam`` that ``lams`` gives it."""
    return pick({one: solve_with(factors, one, options) for one in sorted(set(lams.values()))}, lams)


def pick(solved: Mapping[float, Maps], lams: Mapping[int, float]) -> Maps:
    """One set of maps whose layer ``l`` comes from ``solved[lams[l]]``; all of them fitted with the same options."""
    first = next(iter(solved.values()))
    parts = {
        field.name: {layer: getattr(solved[lam], field.name)[layer] for layer, lam in lams.items()}
        for field in fields(first)
        if isinstance(getattr(first, field.name), Mapping)
    }
    return replace(first, **parts)


def _reduced(vectors: Tensor, damped: Tensor, cross: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Factors of the best map of ``rank``: eigenvectors of the fitted values' covariance, and the ridge solution
    projected on them. ``cross`` is in the eigenbasis; the covariance is ``B^T (G + alpha I) B``."""
    half = damped.sqrt()[:, None] * cross
    leading = torch.linalg.eigh(half.T @ half).eigenvectors[:, -rank:]
    return leading, (vectors @ (damped[:, None] * (cross @ leading))).T


def _projected(factors: Factorised) -> Iterator[tuple[int, Tensor]]:
    """Late layers with their cross-moments in the eigenbasis, ``[width, hidden]``, the split layer's own included."""
    moments = factors.moments
    hidden = moments.mean[factors.split].numel()
    if factors.split not in moments.targets(factors.split):
        yield factors.split, _projected_gram(factors)
    for place, layer in enumerate(moments.targets(factors.split)):
        yield layer, factors.projected[:, place * hidden : (place + 1) * hidden].double()


def _projected_gram(factors: Factorised) -> Tensor:
    return factors.values[:, None] * factors.vectors.T


def _single(tensors: Mapping[int, Tensor]) -> dict[int, Tensor]:
    return {layer: tensor.float().contiguous() for layer, tensor in tensors.items()}
