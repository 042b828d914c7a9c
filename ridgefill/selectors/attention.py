"""Rows that the prompt's last tokens attend to, in layers below the split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgefill.cost import ranking_layers, ranking_macs
from ridgefill.selectors.context import Context, Need, Selector, Work, rounded_share
from ridgefill.selectors.tokens import Span


@dataclass(frozen=True)
class AttentionRows(Selector):
    """Prefix rows that receive the most attention from the last ``window`` prompt tokens (paper section 2.4).

    As many as ``share`` of the prompt's tokens. The layers are those that the lower pass kept inputs of.
    """

    share: float = 0.1
    window: int = 64
    needs: ClassVar[frozenset[Need]] = frozenset({"lower"})

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``. ConfigError where the lower pass cannot rank rows."""
        count = min(context.prefix, rounded_share(self.share, context.tokens))
        return most_attended(context, max(0, context.tokens - self.window), context.tokens, count)

    def windows(self, tokens: int, prefix: int) -> tuple[Span, ...]:
        """See ``Selector.windows``."""
        return ((max(0, tokens - self.window), tokens),)

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: queries of the window and their scores, in each ranking layer."""
        return window_macs(work, max(0, work.tokens - self.window), work.tokens)


def most_attended(context: Context, first: int, end: int, count: int) -> tuple[int, ...]:
    """The ``count`` prefix rows that receive the most attention from the rows ``first`` to ``end`` (excluded)."""
    if not count:
        return ()
    adapter, lower = context.lower_pass()
    order = lower.most_attended(adapter, context.inputs(first, end), first, end, context.prefix)
    return tuple(sorted(order[:count]))


def window_macs(work: Work, first: int, end: int) -> int:
    """Multiply-accumulates of ranking the prefix by the attention of the rows ``first`` to ``end`` (excluded)."""
    if not work.prefix:
        return 0
    layers = ranking_layers(work.geometry, work.split)
    return ranking_macs(work.geometry, first=first, end=end, layers=layers)
