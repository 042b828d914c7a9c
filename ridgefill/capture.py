"""The capture: one exact pass over calibration text, reduced to moments for every split at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import torch

from ridgefill.errors import ConfigError, TextError
from ridgefill.models.base import Adapter
from ridgefill.moments import Chunk, Moments, merge, stream_moments
from ridgefill.passes import run_exact

Progress = Callable[[int], None]
"""Called with the number of tokens just finished."""


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
) -> Moments:
    """Moments of all ``splits`` over token pieces, keeping every ``stride``-th position.

    Raises ``NumericsError`` for values that are not finite and ``ConfigError`` for a split the model cannot have, or a
    model whose filled rows are not written from predictions.
    """
    if not adapter.predicts_inputs:
        raise ConfigError(
            "maps predict late layers' inputs, and this model's filled rows are projected from the split state by "
            "trained weights; fit maps on the original model"
        )
    for split in splits:
        adapter.require_split(split)
    chunks = _chunks(adapter, texts, splits, stride, progress)
    return stream_moments(chunks, splits, adapter.layers)


def capture_lengths(
    adapter: Adapter,
    texts: Iterable[list[int]],
    splits: Sequence[int],
    lengths: Iterable[int],
    *,
    stride: int = 1,
    progress: Progress = lambda tokens: None,
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
        moments = capture(adapter, part, splits, stride=stride, progress=progress)
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
    adapter: Adapter, texts: Iterable[list[int]], splits: Sequence[int], stride: int, progress: Progress
) -> Iterator[Chunk]:
    """What every piece of text leaves at the layers from the first split on."""
    for piece in texts:
        with torch.inference_mode():
            done = run_exact(adapter, torch.tensor([piece]), keep=range(min(splits), adapter.layers))
            kept = {layer: x[:, ::stride] for layer, x in done.inputs.items()}
            inputs = {layer: adapter.block_input(layer, x)[0] for layer, x in kept.items()}
            states = None if adapter.width == adapter.hidden else {split: kept[split][0] for split in splits}
        yield inputs, states
        progress(len(piece))
