"""Digit tokens, the control of the paper's Appendix I.2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgefill.selectors.classes import has_digit
from ridgefill.selectors.context import Context, Need, Selector


@dataclass(frozen=True)
class DigitTokens(Selector):
    """Every prefix token whose text holds a digit; the name of a special token is no text."""

    needs: ClassVar[frozenset[Need]] = frozenset({"texts", "special"})

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        texts, special = context.token_texts(), context.special.all
        return tuple(row for row in range(context.prefix) if has_digit(texts[row]) and context.ids[row] not in special)
