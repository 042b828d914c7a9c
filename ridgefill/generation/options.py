"""What a caller may choose about a filled prefill, checked once, and the rows of a prompt that follow from it."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.models.base import Adapter
from ridgefill.passes import LowerPass
from ridgefill.rows import RowPlan, planned
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Context

SplitLayer = Literal["exact", "mapped"]
ATTENTION_SHARE = 0.1
"""Share of the prompt's tokens that ``rows='attention'`` runs exactly (paper section 2.4)."""


@dataclass(frozen=True)
class Options:
    """Choices of one filled prefill.

    split: first late layer. tail: tokens at the end that run every layer. rows: prefix rows that do so too, None
    for none, ``"attention"`` for a tenth of the prompt by attention received, else their positions. fill: False
    leaves everything to the stock model. split_layer: whether the split layer's rows come from the true state or
    from its map. min_filled: a prompt with fewer rows to fill than this runs exactly.
    """

    split: int
    tail: int
    rows: Literal["attention"] | tuple[int, ...] | None
    fill: bool
    split_layer: SplitLayer
    min_filled: int

    @property
    def arm(self) -> Arm:
        """These choices as an arm of the paper."""
        return Arm("ridgefill", "ridge", split=self.split, tail=self.tail, split_layer=self.split_layer)

    def worth(self, tokens: int, kept: int = 1) -> bool:
        """Whether a prompt of ``tokens`` tokens, with logits of the last ``kept`` of them wanted, is filled at all."""
        return self.fill and tokens - self.exact_at_end(kept) >= self.min_filled

    def exact_at_end(self, kept: int) -> int:
        """Rows at the end that run every layer: the tail before the first row whose logits are wanted, and those."""
        return self.tail + kept - 1


def make_options(
    split: int,
    *,
    tail: int,
    rows: str | Sequence[int] | None,
    fill: bool,
    split_layer: str,
    min_filled: int,
) -> Options:
    """Checked options. Raises ``ConfigError`` naming the value that cannot be used."""
    for name, value in (("tail", tail), ("min_filled", min_filled)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name} is {value!r}; expected a number of tokens, at least 1")
    if split_layer not in get_args(SplitLayer):
        raise ConfigError(f"split_layer is {split_layer!r}; expected 'exact' or 'mapped'")
    chosen: Literal["attention"] | tuple[int, ...] | None = None
    if isinstance(rows, str):
        if rows != "attention":
            raise ConfigError(f"rows is {rows!r}; expected None, 'attention' or a sequence of positions")
        chosen = "attention"
    elif rows is not None:
        chosen = _positions(rows)
    return Options(split, tail, chosen, bool(fill), "mapped" if split_layer == "mapped" else "exact", min_filled)


def _positions(rows: Sequence[int]) -> tuple[int, ...]:
    try:
        found = tuple(sorted({operator.index(row) for row in rows}))
    except TypeError as error:
        raise ConfigError(f"rows is {rows!r}; expected None, 'attention' or a sequence of positions") from error
    if found and found[0] < 0:
        raise ConfigError(f"rows holds position {found[0]}; expected positions counted from 0")
    return found


def plan_prompt(options: Options, adapter: Adapter, lower: LowerPass, kept: int) -> RowPlan:
    """How the late layers treat each row of the prompt in ``lower``; logits of its last ``kept`` rows are wanted.

    Raises ``ConfigError`` when the rows asked for do not exist in this prompt or cannot be ranked.
    """
    prefix = lower.tokens - options.exact_at_end(kept) if options.worth(lower.tokens, kept) else 0
    return planned(lower.tokens, prefix, _selected(options, adapter, lower, prefix), adapter.device)


def _selected(options: Options, adapter: Adapter, lower: LowerPass, prefix: int) -> tuple[int, ...]:
    if options.rows is None or prefix == 0:
        return ()
    if options.rows == "attention":
        return AttentionRows(ATTENTION_SHARE).rows(replace(Context.around(adapter, lower), prefix=prefix))
    if options.rows and options.rows[-1] >= lower.tokens:
        raise ConfigError(f"rows holds position {options.rows[-1]}, but the prompt has {lower.tokens} tokens")
    return tuple(row for row in options.rows if row < prefix)
