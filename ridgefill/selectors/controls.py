"""Controls of the same count: random prefix rows, and the rows just before the tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgefill.selectors.context import Context, Need, Selector, rounded_share
from ridgefill.selectors.tokens import Span


@dataclass(frozen=True)
class Control(Selector):
    """Picks as many rows as ``like`` does, else ``share`` of the prompt's tokens as far as the prefix reaches.

    It is not charged for counting what another would pick, but for a first sweep that the counting runs on.
    """

    share: float = 0.1
    like: Selector | None = None

    @property
    def needs(self) -> frozenset[Need]:  # type: ignore[override]
        """See ``Selector``: what ``like`` needs, as its rows are counted."""
        return frozenset() if self.like is None else self.like.needs

    def windows(self, tokens: int, prefix: int) -> tuple[Span, ...]:
        """See ``Selector.windows``."""
        return () if self.like is None else self.like.windows(tokens, prefix)

    def count(self, context: Context) -> int:
        """How many rows it picks."""
        if self.like is not None:
            return len(self.like.rows(context))
        return min(context.prefix, rounded_share(self.share, context.tokens))


@dataclass(frozen=True)
class RandomRows(Control):
    """Prefix rows drawn uniformly by the sample's seed."""

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        count = self.count(context)
        # Nothing is drawn for no rows, as numpy refuses to choose from an empty prefix.
        if not count:
            return ()
        drawn = np.random.default_rng(context.seed).choice(context.prefix, size=count, replace=False)
        return tuple(sorted(int(row) for row in drawn))


@dataclass(frozen=True)
class LastRows(Control):
    """The prefix rows next to the tail, which lengthens it."""

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        return tuple(range(context.prefix - self.count(context), context.prefix))
