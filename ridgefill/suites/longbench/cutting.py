"""The middle cut: a prompt over its token budget keeps the first and the last half of the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ridgefill.errors import ConfigError

Encode = Callable[[str], Sequence[int]]
"""Token ids of a text, with the special tokens that the tokenizer adds by itself."""
Decode = Callable[[Sequence[int]], str]
"""Text of token ids, special tokens left out."""


@dataclass(frozen=True)
class CutText:
    """A text after the middle cut; ``whole_tokens`` is its length before, ``cut`` whether any were dropped."""

    text: str
    whole_tokens: int
    cut: bool


def cut_middle(ids: Sequence[int], budget: int) -> tuple[list[int], list[int]]:
    """The first and the last ``budget // 2`` of ``ids``; all of them and nothing when they fit in ``budget``.

    An odd budget loses its last token, as in LongBench v1. Raises ConfigError for a budget below 2.
    """
    if budget < 2:
        raise ConfigError(f"the prompt budget is {budget} tokens; expected at least 2, one from each end")
    if len(ids) <= budget:
        return list(ids), []
    half = budget // 2
    return list(ids[:half]), list(ids[-half:])


def cut_apart(whole: str, budget: int, encode: Encode, decode: Decode) -> CutText:
    """The cut of v1, where each half becomes text by itself; a text that fits is given back untouched."""
    ids = encode(whole)
    first, last = cut_middle(ids, budget)
    return CutText(decode(first) + decode(last), len(ids), True) if last else CutText(whole, len(ids), False)


def cut_joined(whole: str, budget: int, encode: Encode, decode: Decode) -> CutText:
    """The cut of v2, where the two halves become text as one sequence; else as ``cut_apart``."""
    ids = encode(whole)
    first, last = cut_middle(ids, budget)
    return CutText(decode(first + last), len(ids), True) if last else CutText(whole, len(ids), False)
