"""Rows that the prompt's last tokens attend to, in layers below the split."""

from __future__ import annotations

from dataclasses import dataclass

from ridgefill.selectors.context import Context, Work, rounded_share
from ridgefill.selectors.ranking import received_attention, top_rows


@dataclass(frozen=True)
class AttentionRows:
    """Prefix rows that receive the most attention from the last ``window`` prompt tokens (paper section 2.4).

    As many as ``share`` of the prompt's tokens. The layers are those that the lower pass kept inputs of.
    """

    share: float = 0.1
    window: int = 64

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``. ConfigError where the lower pass cannot rank rows."""
        count = min(context.prefix, rounded_share(self.share, context.tokens))
        return most_attended(context, max(0, context.tokens - self.window), context.tokens, count)

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: scores of the window's queries with every prefix row."""
        return ranking_macs(work, min(self.window, work.tokens)) if work.prefix else 0


def most_attended(context: Context, first: int, end: int, count: int) -> tuple[int, ...]:
    """The ``count`` prefix rows that receive the most attention from the rows ``first`` to ``end`` (excluded)."""
    if not count:
        return ()
    adapter, lower = context.lower_pass()
    received = received_attention(adapter, lower.cache, context.inputs(first, end), first, end)
    return top_rows(received, context.prefix, count)


def ranking_macs(work: Work, window: int) -> int:
    """Multiply-accumulates of ranking the prefix by the attention of ``window`` rows: their scores in each layer."""
    return window * work.prefix * work.geometry.q * work.ranking_layers
