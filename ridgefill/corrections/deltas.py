"""Fitting the terminal-state correction: mean difference of exact and filled states at calibration chunk ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, Protocol, cast

import torch
from torch import Tensor

from ridgefill.corrections.scan import recurrent_layers, state_of
from ridgefill.corrections.state import state_shape
from ridgefill.errors import ConfigError, NumericsError, TextError
from ridgefill.models.base import Adapter
from ridgefill.models.recurrent import Recurrent

EVERY = 2048
"""Tokens from one measured state to the next (paper section 2.3)."""


class Predicts(Protocol):
    """Maps, of full rank or not."""

    def predict(self, layer: int, state: Tensor) -> Tensor:
        """Split state to the predicted block input of ``layer``."""


def fit_deltas(
    adapter: Adapter,
    maps: Predicts,
    pieces: Iterable[Sequence[int]],
    split: int,
    *,
    every: int = EVERY,
    split_layer: Literal["exact", "mapped"] = "exact",
    progress: Callable[[int], None] = lambda tokens: None,
) -> dict[int, Tensor]:
    """``delta_l`` of every late recurrent layer, fp32 ``[value_heads, key_dim, value_dim]``, order as states are kept.

    The mean, with fp64 sums, of exact minus filled state after every ``every`` tokens of each piece of calibration
    text (token ids); a rest shorter than that is left out. Filled means every row: the mean is what a state is off
    where ``rho`` is 1. maps: in the adapter's type and place. split_layer: ``mapped`` when the fill maps the split
    layer too; otherwise its state is exact and it gets no delta. progress: called with the tokens just finished.

    Raises ``ConfigError`` for a split or model that has nothing to correct, ``TextError`` when no piece is long
    enough, ``NumericsError`` for states that are not finite.
    """
    adapter.require_split(split)
    if every < 1:
        raise ConfigError(f"states were to be measured every {every} tokens; expected at least 1")
    late = recurrent_layers(adapter, split, "a terminal-state correction")
    if split_layer == "exact":
        late = tuple(layer for layer in late if layer > split)
    if not late:
        raise ConfigError(f"only the split layer {split} is recurrent and its state is exact; nothing is to be fitted")
    sums = torch.zeros(len(late), *state_shape(adapter), dtype=torch.float64, device=adapter.device)
    ends = 0
    for piece in pieces:
        for difference in _differences(adapter, maps, piece, split, late, every):
            sums += difference
            ends += 1
        progress(len(piece))
    if ends == 0:
        raise TextError(f"no piece of the text is {every} tokens long; give longer pieces or measure more often")
    if not bool(torch.isfinite(sums).all()):
        raise NumericsError("the states of the calibration text are not finite; check the model, or use dtype=float32")
    return dict(zip(late, (sums / ends).float(), strict=True))


@torch.inference_mode()
def _differences(
    adapter: Adapter, maps: Predicts, piece: Sequence[int], split: int, late: Sequence[int], every: int
) -> Iterator[Tensor]:
    """Exact minus filled states of ``late``, fp64 ``[layers, value_heads, key_dim, value_dim]``, at each chunk end."""
    whole = len(piece) // every * every
    ids = torch.tensor([list(piece[:whole])], device=adapter.device)
    exact, filled = adapter.new_cache(whole), adapter.new_cache(whole)
    for begin in range(0, whole, every):
        chunk = ids[:, begin : begin + every]
        rows = adapter.rows(torch.arange(begin, begin + every, device=adapter.device), ids=chunk)
        x = state = adapter.embed(chunk)
        for layer in range(late[-1] + 1):
            if layer == split:
                state = x
            x = adapter.run_layer(layer, x, rows, exact)
        for layer in late:
            cast(Recurrent, adapter).advance(layer, maps.predict(layer, state), rows, filled)
        differences = ((state_of(exact, at).double() - state_of(filled, at).double())[0] for at in late)
        yield torch.stack([difference.to(adapter.device) for difference in differences])
