"""A late layer whose filled rows are corrected or spliced after they are in and before the tail reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ridgefill.corrections.rescale import LayerScales, Rescale, rescale_rows
from ridgefill.corrections.scan import scan_prefix
from ridgefill.corrections.state import Carried, StateCorrection, take_back
from ridgefill.models.base import LINEAR, Adapter, Rows
from ridgefill.models.cache import RowCache, RowIndex
from ridgefill.splices import Splice


@dataclass(frozen=True)
class Amendments:
    """What is done to filled rows besides filling them; a splice comes last, so nothing changes what it put in."""

    rescale: Rescale | None = None
    correction: StateCorrection | None = None
    splice: Splice | None = None

    def require(self, adapter: Adapter, split: int) -> None:
        """Raise ``ConfigError`` or ``MapError`` for what this model, split or correction does not allow."""
        for one in (self.rescale, self.correction, self.splice):
            if one is not None:
                one.require(adapter, split)


@dataclass(frozen=True)
class Tail:
    """Where the tail begins among the rows of a call.

    before: exact rows that come before it. rows: how many rows of the call are tail, a continuation not counted.
    guess: the prediction of the layer's block input for the first so many tail rows, ``[1, R, hidden]``; None where
    filled rows have their true input (a split layer that is not mapped), so that nothing is to be corrected. map_row:
    multiply-accumulates of one prediction. earlier: under chunked prefill, in the first call with tail rows, the
    layer's filled rows of the calls before, which a rescale finds unscaled (exact prefix rows have read them so).
    """

    before: int
    rows: int
    guess: Callable[[int], Tensor] | None
    map_row: int = 0
    earlier: RowIndex | None = None


@dataclass(frozen=True)
class Amended:
    """A layer's outcome. x: next inputs of the exact rows, ``[1, E, width]``. scales: what a rescale measured.

    carried: what a state correction left, for the next chunk of the same prefix; its ``share.rho`` is what was added.
    """

    x: Tensor
    scales: LayerScales | None = None
    carried: Carried | None = None


def run_amended(
    amendments: Amendments,
    adapter: Adapter,
    layer: int,
    x: Tensor,
    exact: Sequence[Rows],
    predicted: Tensor | None,
    filled: Rows | None,
    cache: RowCache,
    tail: Tail,
    carried: Carried | None = None,
) -> Amended:
    """``Adapter.run_late`` with ``amendments``, whose ``require`` has passed. Without any it is that call itself.

    carried: of the chunk of the prefix before this one, under chunked prefill; chunks of tail rows alone pass it on.
    Rows of ``exact`` that begin before
    the tail and end in it are parted there. A chunk of a prefix may have no exact row; a prompt without filled rows
    has nothing to amend.
    """
    if adapter.kinds[layer] != LINEAR:
        return _attention(amendments, adapter, layer, x, exact, predicted, filled, cache, tail)
    correction = amendments.correction if tail.guess is not None else None
    if amendments.splice is not None and "states" in amendments.splice.parts:
        correction = None
        predicted = None if filled is None else amendments.splice.true_input(adapter, layer, filled.positions)
    only_tail = tail.before == 0 and filled is None
    nothing_filled = filled is None and carried is None
    if exact and (correction is None or only_tail or nothing_filled):
        return Amended(adapter.run_late(layer, x, exact, predicted, filled, cache), carried=carried)
    if carried is not None:
        take_back(layer, cache, carried)
    before, after = _parted(adapter, exact, tail.before)
    scanned = scan_prefix(adapter, layer, x[:, : tail.before], before, predicted, filled, cache)
    if correction is not None:
        carried = correction.add(layer, scanned, cache, carried)
    parts = [scanned.x]
    if after:
        parts.append(adapter.run_late(layer, x[:, tail.before :], after, None, None, cache))
    return Amended(torch.cat(parts, dim=1), carried=carried)


def _attention(
    amendments: Amendments,
    adapter: Adapter,
    layer: int,
    x: Tensor,
    exact: Sequence[Rows],
    predicted: Tensor | None,
    filled: Rows | None,
    cache: RowCache,
    tail: Tail,
) -> Amended:
    """Write the filled rows, change them, and run the exact ones over what is there then."""
    changed = [] if tail.earlier is None else [tail.earlier]
    if filled is not None and predicted is not None:
        adapter.write_filled(layer, predicted, filled, cache)
        changed.append(filled.index)
    scales = None
    if changed and tail.rows and tail.guess is not None and amendments.rescale is not None:
        count = min(amendments.rescale.rows, tail.rows)
        true = adapter.block_input(layer, x[:, tail.before : tail.before + count])
        heads = _heads(cache, layer)
        scales = amendments.rescale.measure(adapter, layer, true, tail.guess(count), heads, tail.map_row)
    for rows in changed:
        if scales is not None:
            rescale_rows(cache, layer, rows, scales.scales)
        if amendments.splice is not None:
            amendments.splice.replace_rows(cache, layer, rows)
    return Amended(adapter.run_late(layer, x, exact, None, None, cache) if exact else x, scales)


def _heads(cache: RowCache, layer: int) -> int:
    return int(cache.visible(layer, 0, 0)[0].shape[1])


def _parted(adapter: Adapter, exact: Sequence[Rows], before: int) -> tuple[list[Rows], list[Rows]]:
    """The rows in two lists, the first ``before`` of them in the one; a filled prefix is visible from position 0."""
    first: list[Rows] = []
    second: list[Rows] = []
    done = 0
    for rows in exact:
        count = int(rows.positions.numel())
        here = min(max(before - done, 0), count)
        if here in (0, count):
            (first if here else second).append(rows)
        else:
            first.append(adapter.rows(rows.positions[:here]))
            second.append(adapter.rows(rows.positions[here:]))
        done += count
    return first, second
