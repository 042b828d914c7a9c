"""The question hidden from the selector: rows picked by attention from the tokens before the tail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgefill.errors import ConfigError
from ridgefill.selectors.attention import most_attended, window_macs
from ridgefill.selectors.context import Context, Need, Selector, Work, rounded_share
from ridgefill.selectors.tokens import Span


@dataclass(frozen=True)
class QuestionBlindRows(Selector):
    """As ``AttentionRows`` with the ``window`` tokens before the tail in place of the prompt's last.

    Blind only while the question lies in the tail, so its place must be known. The window's rows are prefix rows and
    may be picked too.
    """

    share: float = 0.1
    window: int = 64
    needs: ClassVar[frozenset[Need]] = frozenset({"lower", "question"})

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``. ConfigError where the question's place is unknown, or before the tail."""
        _check_blind(context)
        count = min(context.prefix, rounded_share(self.share, context.tokens))
        return most_attended(context, max(0, context.prefix - self.window), context.prefix, count)

    def windows(self, tokens: int, prefix: int) -> tuple[Span, ...]:
        """See ``Selector.windows``."""
        return ((max(0, prefix - self.window), prefix),)

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: queries of the window and their scores, in each ranking layer."""
        return window_macs(work, max(0, work.prefix - self.window), work.prefix)


def _check_blind(context: Context) -> None:
    if context.question is None:
        raise ConfigError(
            "rows blind to the question were asked for, but nobody said where the question is; give the context its "
            "positions, or an empty span where there is none"
        )
    first, end = context.question
    if first < end and first < context.prefix:
        raise ConfigError(
            f"the question begins at row {first}, in the prefix of {context.prefix} rows, where the selector sees it; "
            "expected it inside the tail: lengthen the tail or move the question to the end"
        )
