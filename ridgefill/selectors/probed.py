"""Rows that the probe ranks highest, with special tokens and the lexical net: the paper's 27B selector."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ridgefill.cost import PROBING, probe_macs
from ridgefill.errors import ConfigError
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.context import Context, Need, Selector, Work
from ridgefill.selectors.lexical import LexicalNet
from ridgefill.selectors.special import SpecialTokens
from ridgefill.selectors.tokens import Span


@dataclass(frozen=True)
class ProbedRows(Selector):
    """Prefix rows by the probe's ranking, as many as ``budget`` says (paper section 2.4).

    Rows of the lexical net count against the budget, special tokens come on top; neither is ranked again. lexical:
    None for no net. special: whether special tokens are kept.
    """

    budget: ProbeBudget = field(default_factory=ProbeBudget)
    probing: int = PROBING
    lexical: LexicalNet | None = field(default_factory=LexicalNet)
    special: bool = True
    needs: ClassVar[frozenset[Need]] = frozenset(
        {"lower", "probe", "texts", "prompt", "special", "template", "frequencies"}
    )

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``. ConfigError without the caches of a first sweep."""
        if not context.prefix:
            return ()
        if context.probe is None:
            raise ConfigError(
                "the probe reads caches that a first sweep has filled, which the context lacks; run it through "
                "two_sweeps"
            )
        special = set(SpecialTokens().rows(context)) if self.special else set()
        caught = self.lexical.rows(context) if self.lexical is not None else ()
        # Rows that are exact already are passed over, so that the budget is spent on others.
        wanted = dict.fromkeys((*caught, *context.probe(self.probing)))
        kept = [row for row in wanted if row not in special][: self.budget.size(context)]
        return tuple(sorted({*kept, *special}))

    def windows(self, tokens: int, prefix: int) -> tuple[Span, ...]:
        """See ``Selector.windows``."""
        return self.budget.windows(tokens)

    def macs(self, work: Work) -> int:
        """See ``Selector.macs``: the probe, and the ranking that its budget counts."""
        if not work.prefix:
            return 0
        probe = probe_macs(work.geometry, tokens=work.tokens, prefix=work.prefix, split=work.split, rows=self.probing)
        return probe + self.budget.macs(work)
