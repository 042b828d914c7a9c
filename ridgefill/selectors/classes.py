"""Classes of tokens by their text (paper section 2.4): which of them protected rows are picked from."""

from __future__ import annotations

import string
from enum import StrEnum
from functools import lru_cache

_PUNCTUATION = frozenset(string.punctuation)


class TokenClass(StrEnum):
    """What kind of text a token holds."""

    SPACE = "newline/space"
    NUMBER = "number"
    PUNCT = "punct"
    START = "word start"
    START_CAPITALISED = "capitalised word start"
    PIECE = "word piece"
    PIECE_CAPITALISED = "capitalised word piece"
    MIXED = "mixed"


ELIGIBLE = frozenset(
    {TokenClass.START_CAPITALISED, TokenClass.PIECE_CAPITALISED, TokenClass.PIECE, TokenClass.MIXED},
)
"""Classes that carried more than their share of the fill's damage in the paper's development runs."""


@lru_cache(maxsize=2**16)
def token_class(text: str) -> TokenClass:
    """Class of a token's text, leading white space included; the first description that fits counts.

    Nothing but white space; digits with at most ASCII punctuation; ASCII punctuation; letters only, a word's start if
    white space comes before them and capitalised by the first letter; anything else.
    """
    core = text.strip()
    if not core:
        return TokenClass.SPACE
    if all(char in _PUNCTUATION or char.isdigit() for char in core):
        return TokenClass.NUMBER if has_digit(core) else TokenClass.PUNCT
    if not core.isalpha():
        return TokenClass.MIXED
    if text[0].isspace():
        return TokenClass.START_CAPITALISED if core[0].isupper() else TokenClass.START
    return TokenClass.PIECE_CAPITALISED if core[0].isupper() else TokenClass.PIECE


def has_digit(text: str) -> bool:
    """Whether the text holds a digit, of any script."""
    return any(char.isdigit() for char in text)
