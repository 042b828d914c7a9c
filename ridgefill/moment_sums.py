"""Means and centred products of matrices that come in chunks of rows, at close to the speed of the products alone.

A chunk is moved by its own mean, rounded to fp32, before anything is multiplied: that difference is exact to fp32's
last bit, where the products of raw activations lose all digits of a massive channel. What the rounding left and how
the chunks' means lie apart are terms of low rank, added in fp64 (Chan, Golub and LeVeque 1983, for many parts at once).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from ridgefill.errors import NumericsError

SPAN = 8192
"""Rows whose products are summed in fp32 before they enter the fp64 totals: more of them cost digits (the six of
METHOD section 2), fewer cost time. A chunk is never divided."""

Columns = tuple[slice, slice]
"""Which columns are multiplied with which."""


class MomentSums:
    """Running sums over blocks of columns that lie side by side: means, squared deviations, and some products.

    layers: the layer of each block, for messages. widths: features of each, the same from block ``spread`` on.
    products: the columns whose centred cross-products ``[left, right]`` are wanted. rows: taken so far. mean: fp64,
    of all columns. scatter: fp64, a number for each block from ``spread`` on, its summed squared deviation. totals:
    fp64, one a product. All are up to date after ``finish``.
    """

    def __init__(
        self,
        layers: Sequence[int],
        widths: Sequence[int],
        spread: int,
        products: Sequence[Columns],
        device: torch.device,
    ) -> None:
        columns = sum(widths)
        self.layers, self.products = layers, products
        self.blocks = [slice(*ends) for ends in pairwise(accumulate(widths, initial=0))]
        self.rows, self.mean = 0, torch.zeros(columns, dtype=torch.float64, device=device)
        self.scatter = self.mean.new_zeros(len(widths) - spread)
        self.totals = [self.mean.new_zeros(*(len(range(columns)[side]) for side in pair)) for pair in products]
        self._parts = [torch.empty_like(total, dtype=torch.float32) for total in self.totals]
        self._chunk = torch.empty(0, columns, dtype=torch.float32, device=device)
        self._late = slice(self.blocks[spread].start, columns)
        self._pending: list[tuple[int, Tensor, Tensor]] = []

    def add(self, values: Sequence[Tensor]) -> None:
        """Take one chunk: ``[rows, width]`` of every block, in any float type.

        Raises ``NumericsError`` when one holds a NaN or infinity; the sums are of no use then.
        """
        rows = values[0].shape[0]
        if self._pending and sum(count for count, _, _ in self._pending) + rows > SPAN:
            self.finish()
        if rows > len(self._chunk):
            self._chunk = self._chunk.new_empty(rows, self._chunk.shape[1])
        chunk = self._chunk[:rows]
        mean = torch.cat([x.sum(0, dtype=torch.float64) for x in values]) / rows
        self._require_finite(mean)
        pivot = mean.float()
        for block, x in zip(self.blocks, values, strict=True):
            torch.sub(x, pivot[block], out=chunk[:, block])
        self.scatter += torch.linalg.vector_norm(self._by_block(chunk), dim=-1).double().square().sum(0)
        for part, (left, right) in zip(self._parts, self.products, strict=True):
            part.addmm_(chunk[:, left].T, chunk[:, right], beta=float(bool(self._pending)))
        self._pending.append((rows, mean, mean - pivot))

    def finish(self) -> None:
        """Bring the totals up to date with every chunk taken so far."""
        if not self._pending:
            return
        counts, earlier = (
            torch.tensor(numbers, dtype=self.mean.dtype, device=self.mean.device)
            for numbers in ([count for count, _, _ in self._pending], [self.rows])
        )
        means, rests = torch.stack([one[1] for one in self._pending]), torch.stack([one[2] for one in self._pending])
        rows = self.rows + int(counts.sum())
        mean = self.mean + (counts @ (means - self.mean)) / rows
        # Each term is a weight and a vector whose products with itself are missing: where the chunks' means lie, what
        # their pivots were off by, and how far the mean of all earlier rows has moved.
        weights = torch.cat([counts, -counts, earlier])
        vectors = torch.cat([means - mean, rests, (self.mean - mean)[None]])
        for total, part, (left, right) in zip(self.totals, self._parts, self.products, strict=True):
            total.addmm_((weights[:, None] * vectors[:, left]).T, vectors[:, right])
            _add(total, part)
        self.scatter += weights @ self._by_block(vectors).square().sum(-1)
        self.rows, self.mean = rows, mean
        self._pending.clear()

    def _by_block(self, values: Tensor) -> Tensor:
        """The columns from block ``spread`` on, ``[rows, blocks, width]``."""
        return values[:, self._late].view(len(values), len(self.scatter), -1)

    def _require_finite(self, mean: Tensor) -> None:
        """A sum is finite only if every term is, and fp64 sums of fp32 numbers do not overflow."""
        finite = torch.isfinite(mean)
        if bool(finite.all()):
            return
        bad = next(layer for layer, block in zip(self.layers, self.blocks, strict=True) if not finite[block].all())
        raise NumericsError(
            f"the input of layer {bad} holds values that are not finite; expected none. Check the model "
            "files' checksums, or capture with dtype=float32."
        )


def _add(total: Tensor, part: Tensor) -> None:
    """``total += part``, fp64 and fp32 ``[n, m]``."""
    if total.device.type != "cpu" or not total.numel():
        total.add_(part)
        return
    # In panels that stay in the processor's cache: torch takes three times as long for the whole at once.
    step = max(1, 2**16 // total.shape[1])
    for begin in range(0, len(total), step):
        total[begin : begin + step].add_(part[begin : begin + step].double())
