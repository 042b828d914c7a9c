"""Which tokens of a document are novel, copyable or key (EVALUATION section 1, long documents).

Everything here is linear in the number of tokens.
"""

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
    repeated = _repeated(tokens, run)
    # +1 where a repeated run begins, -1 where it ends: a token is covered while the sum is above zero.
    change = np.zeros(len(tokens) + 1, dtype=np.int64)
    change[: len(repeated)] += repeated
    change[run : run + len(repeated)] -= repeated
    covered: NDArray[np.int64] = np.cumsum(change[:-1])
    return np.asarray(covered == 0, dtype=np.bool_)


def copyable_mask(tokens: Sequence[int], before: int = RUN) -> NDArray[np.bool_]:
    """True where a token and the ``before`` tokens in front of it already occurred earlier in the prompt.

    ``tokens`` are the ids of the whole prompt, shape (n,); the result has shape (n,), one flag per token.
    The first ``before`` tokens are never copyable: too little stands in front of them. Stricter than not
    being novel, since a token must end a repeated run that is one longer.
    """
    mask = np.zeros(len(tokens), dtype=np.bool_)
    mask[before:] = _repeated(tokens, before + 1)
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


def _repeated(tokens: Sequence[int], run: int) -> NDArray[np.bool_]:
    """For each run of ``run`` tokens, by where it begins, whether the same run began earlier; empty if n < run."""
    ids = np.asarray(tokens, dtype=np.int64).tolist()
    seen: set[tuple[int, ...]] = set()
    flags = np.zeros(max(len(ids) - run + 1, 0), dtype=np.bool_)
    for start, found in enumerate(zip(*(ids[shift:] for shift in range(run)), strict=False)):
        if found in seen:
            flags[start] = True
        else:
            seen.add(found)
    return flags
