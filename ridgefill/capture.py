"""The capture: one exact pass over calibration text, reduced to moments for every split at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from ridgefill.devices import unless_full
from ridgefill.errors import ConfigError, TextError
from ridgefill.models.base import Adapter
from ridgefill.moments import Chunk, Moments, merge, stream_moments
from ridgefill.passes import require_finite, run_exact

Progress = Callable[[int], None]
"""Called with the number of tokens just finished."""
Halved = Callable[[str], None]
"""Called with a sentence when memory ran out and fewer rows are run at a time from then on."""


def pieces(
    texts: Iterable[tuple[str, Sequence[int]]], chunk: int, tokens: int, opening: Sequence[int] = ()
) -> Iterator[list[int]]:
    """Cut tokenised texts into pieces of at most ``chunk`` tokens until ``tokens`` have been given.

    opening: tokens that begin every piece and count as its own, for models that know text only after a mark.
    Pieces come round-robin over the texts, so that a small budget still sees every text; a rest shorter than
    half a chunk is dropped. Raises ``TextError`` for an empty text or when the texts hold too few tokens.
    """
    queues: list[Iterator[list[int]]] = []
    for name, ids in texts:
        if not ids:
            raise TextError(f"text {name} is empty; expected at least one token. Remove it from the sources")
        queues.append([*opening, *piece] for piece in cut(ids, chunk - len(opening)))
    given = 0
    while queues and given < tokens:
        for queue in list(queues):
            piece = next(queue, None)
            if piece is None:
                queues.remove(queue)
                continue
            piece = piece[: tokens - given]
            given += len(piece)
            yield piece
            if given >= tokens:
                return
    if given < tokens:
        raise TextError(f"the texts hold {given} usable tokens; {tokens} were asked for. Add text or lower the number")


def cut(ids: Sequence[int], chunk: int) -> Iterator[list[int]]:
    """One text in pieces of ``chunk`` tokens; a rest shorter than half of that is dropped unless it is all there is."""
    for begin in range(0, len(ids), chunk):
        piece = list(ids[begin : begin + chunk])
        if len(piece) >= chunk // 2 or begin == 0:
            yield piece


def capture(
    adapter: Adapter,
    texts: Iterable[list[int]],
    splits: Sequence[int],
    *,
    stride: int = 1,
    progress: Progress = lambda tokens: None,
    halved: Halved = lambda said: None,
) -> Moments:
    """Moments of all ``splits`` over token pieces, keeping every ``stride``-th position.

    Where a device's memory runs out, pieces are run in chunks of half as many rows, over all rows before them as ever:
    the same moments but for their last bits. Raises ``NumericsError`` for values that are not finite and
    ``ConfigError`` for a split the model cannot have, or a model whose filled rows are not written from predictions.
    """
    if not adapter.predicts_inputs:
        raise ConfigError(
            "maps predict late layers' inputs, and this model's filled rows are projected from the split state by "
            "trained weights; fit maps on the original model"
        )
    for split in splits:
        adapter.require_split(split)
    chunks = _chunks(adapter, texts, splits, stride, progress, halved)
    return stream_moments(chunks, splits, adapter.layers)


def capture_lengths(
    adapter: Adapter,
    texts: Iterable[list[int]],
    splits: Sequence[int],
    lengths: Iterable[int],
    *,
    stride: int = 1,
    progress: Progress = lambda tokens: None,
    halved: Halved = lambda said: None,
) -> dict[int | None, Moments]:
    """As ``capture``, from the same one pass also the moments of the first pieces that hold each of ``lengths`` tokens.

    By number of tokens, and under None those of all. Raises ``TextError`` when a length leaves nothing for the next.
    """
    rest = iter(texts)
    found: dict[int | None, Moments] = {}
    so_far: Moments | None = None
    given = 0
    for length in (*sorted(set(lengths)), None):
        part = _Until(rest, None if length is None else length - given)
        moments = capture(adapter, part, splits, stride=stride, progress=progress, halved=halved)
        given += part.given
        found[length] = so_far = moments if so_far is None else merge(so_far, moments)
    return found


class _Until:
    """The next pieces that hold ``tokens`` or are all that is left; ``given``: how many they held."""

    def __init__(self, rest: Iterator[list[int]], tokens: int | None) -> None:
        self.rest, self.tokens, self.given = rest, tokens, 0

    def __iter__(self) -> Iterator[list[int]]:
        while self.tokens is None or self.given < self.tokens:
            piece = next(self.rest, None)
            if piece is None:
                return
            self.given += len(piece)
            yield piece


def _chunks(
    adapter: Adapter,
    texts: Iterable[list[int]],
    splits: Sequence[int],
    stride: int,
    progress: Progress,
    halved: Halved,
) -> Iterator[Chunk]:
    """What every piece of text leaves at the layers from the first split on."""
    at_once: int | None = None
    for piece in texts:
        found = None
        while found is None:
            rows = min(at_once or len(piece), len(piece))
            found = unless_full(partial(_inputs, adapter, piece, min(splits), rows), last=rows == 1)
            if found is None:
                at_once = (rows + 1) // 2
                halved(f"{rows} rows did not fit in memory together and were run {at_once} at a time")
        with torch.inference_mode():
            kept = {layer: x[:, ::stride] for layer, x in found.items()}
            inputs = {layer: adapter.block_input(layer, x)[0] for layer, x in kept.items()}
            states = None if adapter.width == adapter.hidden else {split: kept[split][0] for split in splits}
        yield inputs, states
        progress(len(piece))


def _inputs(adapter: Adapter, piece: Sequence[int], first: int, rows: int) -> Mapping[int, Tensor]:
    """Inputs ``[1, n, width]`` of the layers from ``first`` on, run ``rows`` rows at a time."""
    ids = torch.tensor([piece])
    layers = range(first, adapter.layers)
    with torch.inference_mode():
        if rows == len(piece):
            return run_exact(adapter, ids, keep=layers).inputs
        ids = ids.to(adapter.device)
        cache, parts = adapter.new_cache(len(piece)), {layer: list[Tensor]() for layer in layers}
        for begin in range(0, len(piece), rows):
            some = ids[:, begin : begin + rows]
            places = torch.arange(begin, begin + some.shape[1], device=adapter.device)
            chunk, x = adapter.rows(places, ids=some), adapter.embed(some)
            for layer in range(adapter.layers):
                if layer in parts:
                    parts[layer].append(x)
                x = adapter.run_layer(layer, x, chunk, cache)
        require_finite(x, "the output of the last layer")
        return {layer: torch.cat(found, 1) for layer, found in parts.items()}
