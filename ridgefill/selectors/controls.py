"""Controls of the same count: random prefix rows, and the rows just before the tail."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgefill.selectors.context import Context, Selector, Work, rounded_share


@dataclass(frozen=True)
class RandomRows:
    """Prefix rows drawn uniformly by the sample's seed, as many as ``like`` picks, else ``share`` of the prompt."""

    share: float = 0.1
    like: Selector | None = None

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        count = same_count(self.share, self.like, context)
        # Nothing is drawn for no rows, as numpy refuses to choose from an empty prefix.
        if not count:
            return ()
        drawn = np.random.default_rng(context.seed).choice(context.prefix, size=count, replace=False)
        return tuple(sorted(int(row) for row in drawn))

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: a control is not charged for counting what another would pick."""
        return 0


@dataclass(frozen=True)
class LastRows:
    """The prefix rows next to the tail, which lengthens it: as many as ``like`` picks, else ``share`` of the prompt."""

    share: float = 0.1
    like: Selector | None = None

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        return tuple(range(context.prefix - same_count(self.share, self.like, context), context.prefix))

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: a control is not charged for counting what another would pick."""
        return 0


def same_count(share: float, like: Selector | None, context: Context) -> int:
    """Rows that ``like`` picks, or ``share`` of the prompt's tokens as far as the prefix reaches."""
    if like is not None:
        return len(like.rows(context))
    return min(context.prefix, rounded_share(share, context.tokens))
