"""Protected tokens: the rarest of the classes that carry the most damage; the question has no say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ridgefill.selectors.classes import ELIGIBLE, token_class
from ridgefill.selectors.context import Context, Need, Selector, rounded_share
from ridgefill.selectors.frequency import Frequencies


@dataclass(frozen=True)
class ProtectedTokens(Selector):
    """Prefix tokens of the eligible classes, the rarest ``share`` of them (paper section 2.4, quality mode).

    Rarity is by occurrences in the calibration documents; ties go to the lower position, halves of the count to the
    even one. Special tokens never match.
    """

    share: float = 0.25
    needs: ClassVar[frozenset[Need]] = frozenset({"texts", "special", "frequencies"})

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        matches = protected_matches(context)
        return rarest(matches, context.ids, context.token_frequencies(), rounded_share(self.share, len(matches)))


def protected_matches(context: Context) -> tuple[int, ...]:
    """Prefix positions whose token is of an eligible class and not special, ascending."""
    texts, special = context.token_texts(), context.special.all
    return tuple(
        row for row in range(context.prefix) if context.ids[row] not in special and token_class(texts[row]) in ELIGIBLE
    )


def rarest(rows: Sequence[int], ids: Sequence[int], frequencies: Frequencies, count: int) -> tuple[int, ...]:
    """The ``count`` of ``rows`` whose tokens are rarest, ascending; ties go to the lower position."""
    # Add-one frequency grows with the count, so counts rank as it does, and without rounding.
    ranked = sorted(rows, key=lambda row: (frequencies.count(ids[row]), row))
    return tuple(sorted(ranked[:count]))
