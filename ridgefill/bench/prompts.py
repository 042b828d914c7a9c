"""Prompts for timing: token ids drawn at random, so that nothing of one request helps with another."""

from __future__ import annotations

import random

FIRST_ID = 100
"""Below it, vocabularies have the marks of turns and documents."""

EVERYWHERE = 10_000
"""Ids that every vocabulary of a real model has."""


def random_ids(label: str, tokens: int, vocabulary: int = EVERYWHERE) -> list[int]:
    """``tokens`` ids below ``vocabulary``, the same ones for the same ``label``."""
    drawn = random.Random(label)
    return [drawn.randrange(min(FIRST_ID, vocabulary // 2), vocabulary) for _ in range(tokens)]
