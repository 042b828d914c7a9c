"""Scores of generated answers (EVALUATION section 1)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ridgefill.errors import ConfigError, TextError

_CONTROL = re.compile(r"[\x00-\x1f]")


def clean(prediction: str) -> str:
    """The prediction without outer white space, control characters turned into newlines."""
    return _CONTROL.sub("\n", prediction.strip()).strip()


def score(prediction: str, references: Sequence[str], metric: str = "all") -> float:
    """Score in 0..1: ``all`` is the share of references found, ``part`` is 1 when any is found.

    A reference is found when it is a substring of the prediction, whatever the case. Raises TextError
    without references and ConfigError for another metric.
    """
    if metric not in ("all", "part"):
        raise ConfigError(f"no metric {metric!r}; a retrieval score is 'all' or 'part'")
    if not references:
        raise TextError("a prediction cannot be scored without references; check the sample's source")
    answer = clean(prediction).lower()
    found = sum(reference.lower() in answer for reference in references)
    return float(found > 0) if metric == "part" else found / len(references)
