"""How many rows the probe keeps: as many as simpler rules would have picked on the same prompt."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ridgefill.errors import ConfigError
from ridgefill.selectors.attention import most_attended, window_macs
from ridgefill.selectors.context import Context, Work, rounded_share
from ridgefill.selectors.digits import DigitTokens
from ridgefill.selectors.protected import ProtectedTokens
from ridgefill.selectors.tokens import Span


@dataclass(frozen=True)
class ProbeBudget:
    """``factor`` times the size of a union (paper section 2.4, the 27B selector).

    The union: the rarer ``rarer_share`` of the protected-class matches, every digit token, and ``attention_share`` of
    the prefix by lower-layer attention from the last ``window`` tokens. Halves round to the even number.
    """

    factor: float = 1.0
    rarer_share: float = 0.5
    attention_share: float = 0.2
    window: int = 64

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor >= 0):
            raise ConfigError(f"a budget factor of {self.factor} was given; expected a number from 0")

    def union(self, context: Context) -> frozenset[int]:
        """Prefix rows that the three rules pick together; only their number counts."""
        rarer = ProtectedTokens(self.rarer_share).rows(context)
        digits = DigitTokens().rows(context)
        count = rounded_share(self.attention_share, context.prefix)
        attended = most_attended(context, max(0, context.tokens - self.window), context.tokens, count)
        return frozenset((*rarer, *digits, *attended))

    def size(self, context: Context) -> int:
        """Rows to keep, at most the prefix."""
        return min(context.prefix, rounded_share(self.factor, len(self.union(context))))

    def windows(self, tokens: int) -> tuple[Span, ...]:
        """Rows whose inputs to the ranking layers it reads."""
        return ((max(0, tokens - self.window), tokens),)

    def macs(self, work: Work) -> int:
        """Multiply-accumulates of the ranking by attention; the other two rules read text."""
        return window_macs(work, max(0, work.tokens - self.window), work.tokens)
