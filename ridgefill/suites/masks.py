"""Which tokens of a document are novel, and which are key (EVALUATION section 1, long documents)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ridgefill.errors import NumericsError, TextError

RUN = 8
KEY_NATS = 2.0


def novel_mask(tokens: Sequence[int], run: int = RUN) -> NDArray[np.bool_]:
    """True where a token is inside no run of ``run`` tokens that also occurs earlier in the prompt.

    ``tokens`` are the ids of the whole prompt, shape (n,); the result has shape (n,), one flag per token.
    The earlier occurrence may overlap the later one. A prompt shorter than a run is all novel.
    """
    mask = np.ones(len(tokens), dtype=np.bool_)
    seen: set[tuple[int, ...]] = set()
    ids = [int(token) for token in tokens]
    for start in range(len(ids) - run + 1):
        window = tuple(ids[start : start + run])
        if window in seen:
            mask[start : start + run] = False
        else:
            seen.add(window)
    return mask


def key_mask(full: ArrayLike, short: ArrayLike, nats: float = KEY_NATS) -> NDArray[np.bool_]:
    """True where the exact arm's loss rises by more than ``nats`` when only the tail is left as context.

    ``full`` and ``short`` are losses in nats of the same tokens, shape (n,), with the whole prompt and
    with its last tokens only. Raises TextError for different shapes, NumericsError for a NaN or infinity.
    """
    whole, cut = np.asarray(full, dtype=np.float64), np.asarray(short, dtype=np.float64)
    if whole.shape != cut.shape or whole.ndim != 1:
        raise TextError(f"losses have shapes {whole.shape} and {cut.shape}, expected one value per scored token")
    if not (np.isfinite(whole).all() and np.isfinite(cut).all()):
        raise NumericsError("a loss is not a finite number, so key tokens cannot be told; look at the exact arm")
    return cut - whole > nats
