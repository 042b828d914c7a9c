"""A prompt prefilled chunk by chunk, so that a server can do other work in between (paper section 2.3 on chunks).

Under an arm, a chunk's prefix rows write their late entries from the prediction as soon as its lower layers have run,
and its exact rows run the late layers over all that is there: what a row sees lies before it, so the cache is that of
one pass, up to the order of sums. Which rows are exact has to be known before the first chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from ridgefill.amend import Amendments, Tail, run_amended
from ridgefill.arms import Arm
from ridgefill.corrections.state import Carried
from ridgefill.errors import ConfigError
from ridgefill.fill import NOTHING, ROWS_AT_ONCE, Predict
from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache
from ridgefill.passes import require_finite
from ridgefill.rows import RowPlan


@dataclass(frozen=True)
class Prefilled:
    """A prompt whose last chunk is done. cache: all layers. hidden: output of the last row, ``[1, 1, hidden]``."""

    cache: RowCache
    hidden: Tensor


@dataclass(frozen=True)
class ChunkedFill:
    """How an arm fills one prompt. plan: its rows, made beforehand. predict: None when the arm writes nothing."""

    arm: Arm
    plan: RowPlan
    predict: Predict | None
    amendments: Amendments = NOTHING

    @property
    def split(self) -> int:
        """First late layer."""
        if self.arm.split is None:
            raise ConfigError(f"arm {self.arm.key} fills nothing; use exact_chunks")
        return self.arm.split

    @property
    def prefix(self) -> int:
        """Rows before the tail."""
        return int(self.plan.exact[-1]) + 1 - self.plan.tail


def unchunked(arm: Arm, adapter: Adapter) -> str | None:
    """Why an arm cannot be prefilled in chunks, whatever the prompt; None where it can."""
    if arm.needs & {"lower", "probe"}:
        return (
            f"arm {arm.key} picks exact rows by attention, which is known only after the prompt's last chunk, when "
            "late layers have passed them by"
        )
    if arm.splice:
        return f"arm {arm.key} splices rows of an exact pass"
    if arm.rescale and arm.rows is not None:
        return (
            f"arm {arm.key} rescales filled rows by what the tail shows, and its exact prefix rows would have read "
            "them unscaled in the chunks before"
        )
    if adapter.kva is not None and adapter.kva.context is not None:
        return f"arm {arm.key} writes from heads that mix all rows of the prompt"
    return None


def require_chunks(fill: ChunkedFill, adapter: Adapter, chunk: int) -> None:
    """Raise ``ConfigError`` or ``MapError`` for what chunks of ``chunk`` tokens would not compute as one pass does."""
    if (reason := unchunked(fill.arm, adapter)) is not None:
        raise ConfigError(f"{reason}; it cannot be prefilled in chunks")
    adapter.require_split(fill.split)
    fill.amendments.require(adapter, fill.split)
    if fill.amendments.rescale is not None and fill.plan.filled.numel():
        measured = min(fill.amendments.rescale.rows, fill.plan.tail)
        there = min(fill.plan.tail, chunk - fill.prefix % chunk)
        if there < measured:
            raise ConfigError(
                f"arm {fill.arm.key} measures its rescale on {measured} tail rows, of which the chunk where the tail "
                f"begins holds {there}; expected all of them there: take other chunks or fewer rows"
            )


def exact_chunks(adapter: Adapter, ids: Tensor, chunk: int) -> Iterator[Prefilled | None]:
    """Run every layer on ``ids`` (int64 ``[1, N]``), ``chunk`` tokens at a time; None after each chunk but the last."""
    cache = adapter.new_cache(int(ids.shape[1]))
    for positions in _chunks(adapter, ids, chunk):
        x = _below(adapter, ids, positions, adapter.layers, cache)
        yield _outcome(ids, positions, cache, x[:, -1:], "the output of the last layer")


def filled_chunks(adapter: Adapter, ids: Tensor, chunk: int, fill: ChunkedFill) -> Iterator[Prefilled | None]:
    """The same under an arm: only exact rows run the late layers. Raises as ``require_chunks``."""
    require_chunks(fill, adapter, chunk)
    cache = adapter.new_cache(int(ids.shape[1]))
    cache.start[fill.split :] = [fill.plan.start] * (adapter.layers - fill.split)
    carried: dict[int, Carried | None] = {}
    for positions in _chunks(adapter, ids, chunk):
        state = _below(adapter, ids, positions, fill.split, cache)
        x = _late(adapter, fill, positions, state, cache, carried)
        yield _outcome(ids, positions, cache, x[:, -1:], f"the output of arm {fill.arm.key}")


def _chunks(adapter: Adapter, ids: Tensor, chunk: int) -> tuple[Tensor, ...]:
    if chunk < 1 or ids.shape[1] < 1:
        raise ConfigError(f"chunks of {chunk} tokens of a prompt of {ids.shape[1]} were asked for; expected 1 or more")
    return tuple(torch.arange(ids.shape[1], device=adapter.device).split(chunk))


def _below(adapter: Adapter, ids: Tensor, positions: Tensor, stop: int, cache: RowCache) -> Tensor:
    """Layers below ``stop`` on the next chunk, over the chunks before it: the input of layer ``stop``."""
    part = ids[:, int(positions[0]) : int(positions[-1]) + 1].to(adapter.device)
    rows, x = adapter.rows(positions, ids=part), adapter.embed(part)
    for layer in range(stop):
        x = adapter.run_layer(layer, x, rows, cache)
    return x


def _outcome(ids: Tensor, positions: Tensor, cache: RowCache, last: Tensor, what: str) -> Prefilled | None:
    if int(positions[-1]) + 1 < ids.shape[1]:
        return None
    require_finite(last, what)
    return Prefilled(cache, last)


def _late(
    adapter: Adapter,
    fill: ChunkedFill,
    positions: Tensor,
    state: Tensor,
    cache: RowCache,
    carried: dict[int, Carried | None],
) -> Tensor:
    """Late layers of one chunk: outputs of its exact rows. carried: of corrected layers, from chunk to chunk."""
    first, stop = int(positions[0]), int(positions[-1]) + 1
    exact, filled = (rows[(rows >= first) & (rows < stop)] for rows in (fill.plan.exact, fill.plan.filled))
    x = state[:, exact - first]
    if not exact.numel() and fill.predict is None:
        return x
    rows = [adapter.rows(part, start=fill.plan.start) for part in exact.split(ROWS_AT_ONCE)] if exact.numel() else []
    before = int((exact < fill.prefix).sum())
    tail_state = state[:, exact[before:] - first]
    for layer in range(fill.split, adapter.layers):
        true_input = fill.predict is None or (layer == fill.split and fill.arm.split_layer == "exact")
        predict = _true(adapter) if fill.predict is None or true_input else fill.predict
        seen = adapter.first_needed(layer, int(fill.plan.exact[0]))
        due = filled[filled >= seen]
        written = adapter.rows(due, attend=False) if due.numel() else None
        predicted = None if written is None else predict(layer, state[:, due - first])
        tail = Tail(
            before,
            int(exact.numel()) - before,
            None if true_input else partial(_guess, predict, layer, tail_state),
            earlier=_earlier(fill, first, stop, seen),
        )
        done = run_amended(
            fill.amendments, adapter, layer, x, rows, predicted, written, cache, tail, carried.get(layer)
        )
        x, carried[layer] = done.x, done.carried
    return x


def _earlier(fill: ChunkedFill, first: int, stop: int, seen: int) -> Tensor | None:
    """Filled rows of the chunks before, in the chunk where the tail begins: a rescale measured here is theirs too."""
    if not first <= fill.prefix < stop:
        return None
    rows = fill.plan.filled[(fill.plan.filled < first) & (fill.plan.filled >= seen)]
    return rows if rows.numel() else None


def _guess(predict: Predict, layer: int, state: Tensor, count: int) -> Tensor:
    return predict(layer, state[:, :count])


def _true(adapter: Adapter) -> Predict:
    return adapter.block_input
