"""Special tokens: control, unknown and user-defined ones run exactly, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ridgefill.selectors.context import Context, Need, Selector


@dataclass(frozen=True)
class SpecialTokens(Selector):
    """Every prefix row that holds a special token (paper section 2.4); comes on top of any budget."""

    needs: ClassVar[frozenset[Need]] = frozenset({"special"})

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        special = context.special.all
        return tuple(row for row in range(context.prefix) if context.ids[row] in special)
