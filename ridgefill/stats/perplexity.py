"""The perplexity gap: how much more uncertain an arm is than another (EVALUATION section 2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ridgefill.errors import NumericsError
from ridgefill.stats.intervals import Contrast, contrasts
from ridgefill.stats.resampling import RESAMPLES, Floats, Strata, differences, groups_of, keys_of


def perplexity_gap(
    loss: ArrayLike, against: ArrayLike, domains: Strata = None, resamples: int = RESAMPLES, seed: int = 0
) -> Contrast:
    """``exp(loss - against) - 1`` per document, averaged within each domain and then across domains.

    loss, against: mean nats per token of each document ``[n]`` under the two arms. domains: one key per document;
    documents are resampled within them. 0.05 is a perplexity 5 % higher. Raises NumericsError for losses that
    cannot be paired, are NaN or infinite, or differ so much that the gap overflows.
    """
    gaps = _gaps(differences(loss, against))
    groups = groups_of(keys_of(domains, gaps.size))
    weights = np.empty_like(gaps)
    for members in groups:
        weights[members] = gaps.size / (len(groups) * members.size)
    # Each domain has the same number of documents in every resample, so weighting the documents is exact.
    return contrasts((gaps * weights)[np.newaxis], domains, resamples, seed)[0]


def _gaps(nats: Floats) -> Floats:
    with np.errstate(over="ignore"):
        gaps = np.expm1(nats)
    if not np.isfinite(gaps).all():
        raise NumericsError(f"a loss {nats.max():.4g} nats higher has no perplexity gap; expected losses of a model")
    return gaps
