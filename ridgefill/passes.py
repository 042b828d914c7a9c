"""Passes through the layers: the exact pass over a prompt, and the lower pass that every arm of a split shares."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from ridgefill.cost import RANKING_LAYERS
from ridgefill.errors import NumericsError, TextError
from ridgefill.models.base import Adapter
from ridgefill.models.cache import RowCache
from ridgefill.ranking import ranked, received_attention


def selector_layers(adapter: Adapter) -> tuple[int, ...]:
    """Layers that rank prefix rows where they lie below the split: RANKING_LAYERS that see all rows, ascending.

    In a model with windows few layers see all rows, in other places, so all that do are taken.
    """
    candidates = range(adapter.layers) if adapter.windows else RANKING_LAYERS
    return tuple(layer for layer in candidates if layer < adapter.layers and adapter.attends(layer))


@dataclass(frozen=True)
class LowerPass:
    """Layers below ``split`` of one prompt, run exactly.

    cache: rows of layers below the split. state: input of the split layer, ``[1, N, hidden]``. window: the
    positions (first, end) of the question window. window_inputs: layer -> that layer's input on the window rows.
    seconds: wall clock of the lower layers.
    """

    split: int
    tokens: int
    cache: RowCache
    state: Tensor
    window: tuple[int, int]
    window_inputs: Mapping[int, Tensor]
    seconds: float

    def most_attended(
        self, adapter: Adapter, inputs: Mapping[int, Tensor], first: int, end: int, prefix: int
    ) -> tuple[int, ...]:
        """Positions below ``prefix`` by the attention they receive from the rows ``first`` to ``end`` (excluded).

        The most attended first, ties to the lower position. inputs: ranking layer -> its inputs on those rows.
        """
        return ranked(received_attention(adapter, self.cache, inputs, first, end), prefix)


@dataclass(frozen=True)
class ExactPass:
    """All layers of one prompt, run exactly; ``inputs`` holds the layer inputs that were asked for.

    hidden: output of the last layer, ``[1, N, hidden]``. clock[l]: seconds until layer ``l`` began.
    """

    tokens: int
    cache: RowCache
    inputs: Mapping[int, Tensor]
    hidden: Tensor
    window: tuple[int, int]
    window_inputs: Mapping[int, Tensor]
    clock: tuple[float, ...]

    def lower(self, split: int, tokens: int | None = None) -> LowerPass:
        """The lower pass of ``split``, shared with this pass: the same tensors, nothing computed again."""
        below = {layer: x for layer, x in self.window_inputs.items() if layer < split}
        state = self.inputs[split]
        return LowerPass(
            split, tokens or self.tokens, self.cache.lower(split), state, self.window, below, self.clock[split]
        )


def run_exact(
    adapter: Adapter,
    ids: Tensor,
    *,
    capacity: int | None = None,
    keep: Collection[int] = (),
    window: tuple[int, int] | None = None,
) -> ExactPass:
    """Run every layer on every row of ``ids`` (int64 ``[1, N]``), as the stock model does in one pass.

    keep: layers whose input is kept. window: positions whose inputs to the selector layers are kept
    (default: the last 64). Raises ``NumericsError`` when the output holds a NaN or infinity.
    """
    tokens = _checked_length(ids)
    window = window or (max(0, tokens - 64), tokens)
    done = _run_layers(adapter, ids, adapter.layers, capacity or tokens, window, keep)
    require_finite(done.output, "the output of the last layer")
    return ExactPass(tokens, done.cache, done.kept, done.output, window, done.window_inputs, done.clock)


def run_lower(adapter: Adapter, ids: Tensor, split: int, *, capacity: int | None = None, window: int = 64) -> LowerPass:
    """Run only the layers below ``split`` on ``ids`` (int64 ``[1, N]``): the exact part of a filled prefill."""
    tokens = _checked_length(ids)
    span = (max(0, tokens - window), tokens)
    done = _run_layers(adapter, ids, split, capacity or tokens, span)
    return LowerPass(split, tokens, done.cache, done.output, span, done.window_inputs, done.clock[-1])


@dataclass(frozen=True)
class _Layers:
    """Layers ``0 .. stop - 1`` after they ran; clock has one entry per layer and one for the end."""

    cache: RowCache
    output: Tensor
    kept: Mapping[int, Tensor]
    window_inputs: Mapping[int, Tensor]
    clock: tuple[float, ...]


def _run_layers(
    adapter: Adapter, ids: Tensor, stop: int, capacity: int, window: tuple[int, int], keep: Collection[int] = ()
) -> _Layers:
    cache = adapter.new_cache(capacity)
    ids = ids.to(adapter.device)
    rows = adapter.rows(torch.arange(ids.shape[1], device=adapter.device), ids=ids)
    kept: dict[int, Tensor] = {}
    windows: dict[int, Tensor] = {}
    selectors = selector_layers(adapter)
    begin, clock = perf_counter(), []
    x = adapter.embed(ids)
    for layer in range(stop):
        clock.append(perf_counter() - begin)
        if layer in keep:
            kept[layer] = x
        if layer in selectors:
            windows[layer] = x[:, slice(*window)]
        x = adapter.run_layer(layer, x, rows, cache)
    clock.append(perf_counter() - begin)
    return _Layers(cache, x, kept, windows, tuple(clock))


def require_finite(x: Tensor, what: str) -> None:
    """Raise ``NumericsError`` naming ``what`` when ``x`` holds a NaN or an infinity."""
    if not bool(torch.isfinite(x).all()):
        bad = int((~torch.isfinite(x)).sum())
        raise NumericsError(
            f"{what} holds {bad} values that are not finite; expected none. Check the model files' checksums, or "
            "use dtype=float32 if the model overflows in a smaller type."
        )


def _checked_length(ids: Tensor) -> int:
    if ids.ndim != 2 or ids.shape[0] != 1 or ids.shape[1] == 0:
        raise TextError(f"a prompt of shape {list(ids.shape)} was given; expected [1, N] with at least one token")
    return int(ids.shape[1])
