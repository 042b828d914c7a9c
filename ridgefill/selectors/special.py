"""Special tokens: control, unknown and user-defined ones run exactly, however many there are."""

from __future__ import annotations

from dataclasses import dataclass

from ridgefill.selectors.context import Context, Work


@dataclass(frozen=True)
class SpecialTokens:
    """Every prefix row that holds a special token (paper section 2.4); comes on top of any budget."""

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        special = context.special.all
        return tuple(row for row in range(context.prefix) if context.ids[row] in special)

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: ids only."""
        return 0
