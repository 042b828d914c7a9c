"""The recommended setting against exact prefill on held-out data: non-inferiority of retrieval, and key-token loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.stats import (
    Contrast,
    NonInferiority,
    contrasts,
    least_samples,
    mean_interval,
    non_inferiority,
    paired_contrast,
)
from ridgefill.tuning.candidates import EXACT

MARGIN = 3.0
"""Points of filled-region retrieval that may be lost, fixed before anything runs."""
WEAK = 50.0
"""Points of exact prefill below which there is too little to lose for a comparison to say much."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Confirmation:
    """What held-out data say of one setting. Points are 0 to 100, losses nats per token above exact.

    test: non-inferiority of retrieval. needed: samples below which the margin cannot be shown whatever they say.
    difference: of retrieval, two-sided. loss, key_loss: over documents, the second over those with key tokens.
    """

    test: NonInferiority
    retrieval: Contrast
    exact: Contrast
    difference: Contrast
    needed: int
    loss: Contrast | None
    key_loss: Contrast | None
    documents: int

    @property
    def shown(self) -> bool:
        """Whether non-inferiority is shown."""
        return self.test.verdict == "non_inferior"

    @property
    def weak(self) -> bool:
        """Whether exact itself finds so little that there is little to lose."""
        return self.exact.estimate < WEAK

    def as_json(self) -> dict[str, Any]:
        """Everything, for ``tune.json``."""
        return {**asdict(self), "shown": self.shown, "exact_is_weak": self.weak}


def confirm(rows: Sequence[Row], key: str, seed: int, margin: float = MARGIN) -> Confirmation:
    """Compare candidate ``key`` with exact over held-out ``rows``. Raises ``ResultsError`` for unpaired ones.

    Samples are resampled within tasks, documents within domains; all documents together where a domain has only one, as
    its interval would have no width.
    """
    tasks, arm, exact = _paired(rows, "ruler", "score", key)
    arm, exact = [100.0 * one for one in arm], [100.0 * one for one in exact]
    if not arm:
        raise ResultsError(f"no held-out sample was measured under {key}; run again with --confirm of at least 1")
    domains, losses, _ = _paired(rows, "documents", "loss", key)
    key_domains, key_losses, _ = _paired(rows, "documents", "key_loss", key)
    return Confirmation(
        non_inferiority(arm, exact, margin, tasks, seed=seed),
        mean_interval(arm, tasks, seed=seed),
        mean_interval(exact, tasks, seed=seed),
        paired_contrast(arm, exact, tasks, seed=seed),
        least_samples(margin),
        contrasts([losses], _strata(domains), seed=seed)[0] if losses else None,
        contrasts([key_losses], _strata(key_domains), seed=seed)[0] if key_losses else None,
        len(losses),
    )


def _strata(domains: Sequence[str]) -> Sequence[str] | None:
    return None if 1 in Counter(domains).values() else domains


def _paired(rows: Sequence[Row], suite: str, name: str, key: str) -> tuple[list[str], list[float], list[float]]:
    """Strata and values of a candidate and of exact, over the items that both have a value for."""
    values: dict[str, dict[str, float]] = {key: {}, EXACT: {}}
    strata: dict[str, str] = {}
    for row in rows:
        if row["suite"] == suite and row[name] is not None:
            values[row["candidate"]][row["item"]] = float(row[name])
            strata[row["item"]] = row["stratum"]
    if values[key].keys() != values[EXACT].keys():
        odd = sorted(values[key].keys() ^ values[EXACT].keys())
        raise ResultsError(f"{len(odd)} held-out items are under one arm only, among them {odd[0]}; run again")
    items = list(values[key])
    return [strata[one] for one in items], [values[key][one] for one in items], [values[EXACT][one] for one in items]
