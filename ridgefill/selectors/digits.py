"""Digit tokens, the control of the paper's Appendix I.2."""

from __future__ import annotations

from dataclasses import dataclass

from ridgefill.selectors.classes import has_digit
from ridgefill.selectors.context import Context, Work


@dataclass(frozen=True)
class DigitTokens:
    """Every prefix token whose text holds a digit; the name of a special token is no text."""

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        texts, special = context.token_texts(), context.special.all
        return tuple(row for row in range(context.prefix) if has_digit(texts[row]) and context.ids[row] not in special)

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: text only."""
        return 0
