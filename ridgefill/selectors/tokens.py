"""What selectors know of a prompt's tokens beside their ids: texts, which are special, where characters lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ridgefill.errors import TextError

Span = tuple[int, int]
"""First position, and the one after the last."""


@dataclass(frozen=True)
class SpecialIds:
    """Token ids that are not ordinary text, by kind."""

    control: frozenset[int] = frozenset()
    unknown: frozenset[int] = frozenset()
    user_defined: frozenset[int] = frozenset()

    @property
    def all(self) -> frozenset[int]:
        """Ids of every kind."""
        return self.control | self.unknown | self.user_defined


def special_ids(tokenizer: Any) -> SpecialIds:
    """Special ids of a transformers tokenizer.

    Added tokens that it marks as special are control tokens, the other added ones user-defined.
    """
    added = tokenizer.added_tokens_decoder
    unknown = frozenset(() if tokenizer.unk_token_id is None else (int(tokenizer.unk_token_id),))
    control = {int(token) for token in tokenizer.all_special_ids}
    control |= {int(token) for token, how in added.items() if how.special}
    user_defined = {int(token) for token in added} - control
    return SpecialIds(frozenset(control) - unknown, unknown, frozenset(user_defined) - unknown)


def token_texts(tokenizer: Any, ids: Sequence[int]) -> tuple[str, ...]:
    """Text of every token as it stands inside a text, white space before it included.

    A token that holds part of a character reads as U+FFFD.
    """
    # Alone, the first token of a text loses its space with some decoders, so each is read behind another.
    anchor = int(tokenizer("a", add_special_tokens=False)["input_ids"][-1])
    before = _decode(tokenizer, [anchor])
    texts = {token: _decode(tokenizer, [anchor, token]).removeprefix(before) for token in sorted(set(ids))}
    return tuple(texts[token] for token in ids)


def positions_of(offsets: Sequence[Span], start: int, end: int) -> Span:
    """Positions of the tokens that hold any of the characters ``start`` to ``end`` (excluded). Raises ``TextError``."""
    found = [place for place, (low, high) in enumerate(offsets) if max(low, start) < min(high, end)]
    if not found:
        raise TextError(f"no token holds characters {start} to {end}; the offsets belong to another prompt")
    return found[0], found[-1] + 1


def outside(offsets: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """Spans of the tokens before and after those of characters ``start`` to ``end``: a chat template's own tokens."""
    first, stop = positions_of(offsets, start, end)
    return tuple((low, high) for low, high in ((0, first), (stop, len(offsets))) if low < high)


def _decode(tokenizer: Any, ids: list[int]) -> str:
    text: str = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text
