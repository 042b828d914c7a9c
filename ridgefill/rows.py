"""Which rows of a prompt run every layer: the tail, and prefix rows picked by a selector (paper section 2.4)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, correction_macs, exact_macs, fill_macs
from ridgefill.errors import ConfigError
from ridgefill.selectors.context import Context, Work, rounded_share


@dataclass(frozen=True)
class RowPlan:
    """How the late layers treat each prompt row.

    filled: int64 ``[F]``, rows written from a prediction. exact: int64 ``[E]``, rows that run every layer, the
    tail included; both ascending. tail: rows at the end counted as the tail. start: first position the late
    layers can see. selected: exact prefix rows picked on top of the tail. target: multiply-accumulates that the plan
    was matched to, None where nothing is matched.
    """

    filled: Tensor
    exact: Tensor
    tail: int
    start: int
    selected: tuple[int, ...]
    target: int | None = None


@dataclass(frozen=True)
class Macs:
    """Multiply-accumulates of one prefill by the cost model: all rows, picking rows, measuring corrections."""

    rows: int
    selection: int = 0
    correction: int = 0

    @property
    def total(self) -> int:
        """All of it."""
        return self.rows + self.selection + self.correction


def plan_rows(arm: Arm, context: Context, geometry: Geometry) -> RowPlan:
    """Rows of one prompt under ``arm``, whose selector reads ``context`` (its prefix is set here, by the arm's tail).

    A prompt no longer than the tail has no filled rows and runs exactly. Raises ``ConfigError`` for a selector that
    lacks something, or that a probe has to feed (``selectors.sweeps``).
    """
    tokens = context.tokens
    if arm.matched is not None and tokens > arm.tail:
        return _matched(arm, arm.matched, context, geometry)
    return _plan(arm, context, tail_rows(arm, tokens))


def tail_rows(arm: Arm, tokens: int) -> int:
    """Rows of the tail where nothing is matched: the arm's own and its share of the prompt, if there are as many."""
    return min(tokens, arm.tail + (rounded_share(arm.longer, tokens) if arm.longer else 0))


def require_countable(arm: Arm) -> None:
    """Raise ``ConfigError`` for a matched arm whose rows are picked by a rule that says itself how many."""
    if arm.matched is None or arm.rows is None:
        return
    if not hasattr(arm.rows, "share") or getattr(arm.rows, "like", None) is not None:
        raise ConfigError(
            f"arm {arm.key} picks rows by a rule without a share of its own, so their number cannot be matched; take "
            "rows with a share, or leave match out"
        )


def planned(tokens: int, prefix: int, selected: Sequence[int], device: torch.device | str = "cpu") -> RowPlan:
    """A prompt's rows with the prefix positions ``selected`` and the tail exact, and all others filled."""
    is_exact = torch.zeros(tokens, dtype=torch.bool)
    is_exact[list(selected)] = True
    is_exact[prefix:] = True
    exact, filled = (mask.nonzero()[:, 0].to(device) for mask in (is_exact, ~is_exact))
    return RowPlan(filled, exact, tokens - prefix, 0, tuple(selected))


def plan_macs(arm: Arm, plan: RowPlan, context: Context, geometry: Geometry) -> Macs:
    """Multiply-accumulates of a prefill under this plan, by the cost model."""
    tokens = context.tokens
    if arm.split is None or arm.fill == "exact":
        return Macs(exact_macs(geometry, tokens))
    mapped = arm.split_layer == "mapped"
    rows = fill_macs(
        geometry,
        tokens=tokens,
        split=arm.split,
        tail=plan.tail,
        fill=arm.fill,
        exact_rows=plan.selected,
        mapped_split_layer=mapped,
        rank=arm.maps.rank,
        swept="probe" in arm.needs,
    )
    prefix = tokens - plan.tail
    work = Work(geometry, tokens, prefix, arm.split, len(plan.selected))
    correction = correction_macs(
        geometry,
        split=arm.split,
        prefix=prefix,
        tail=plan.tail,
        rescale_rows=arm.rescale_rows if arm.rescale else 0,
        state_correction=arm.state_correction,
        fill=arm.fill,
        mapped_split_layer=mapped,
        rank=arm.maps.rank,
    )
    return Macs(rows, arm.rows.macs(work) if arm.rows is not None else 0, correction)


def ranking_window(arms: Collection[Arm], tokens: int, least: int = 64) -> tuple[int, int]:
    """One span of a prompt's rows that holds all that the arms' selectors rank by, at least the last ``least``."""
    first = max(0, tokens - least)
    for one in (one for arm in arms for one in arm.chain):
        spans = () if one.rows is None else one.rows.windows(tokens, tokens - tail_rows(one, tokens))
        first = min([first, *(start for start, _ in spans)])
    return first, tokens


def _plan(arm: Arm, context: Context, tail: int) -> RowPlan:
    """The arm's rows when its tail is that long."""
    tokens, device = context.tokens, "cpu" if context.adapter is None else context.adapter.device
    prefix = tokens - tail
    selected = () if arm.rows is None or not prefix else arm.rows.rows(replace(context, prefix=prefix))
    plan = planned(tokens, prefix, selected, device)
    return replace(plan, filled=plan.filled[:0], start=prefix) if arm.fill == "none" else plan


def _matched(arm: Arm, like: Arm, context: Context, geometry: Geometry) -> RowPlan:
    """The plan that costs what ``like`` costs on this prompt, by the length of the tail or by the number of rows."""
    require_countable(arm)
    target = plan_macs(like, plan_rows(like, context, geometry), context, geometry).total

    def by_tail(tail: int) -> RowPlan:
        return _plan(arm, context, tail)

    def by_rows(count: int) -> RowPlan:
        rows: Any = arm.rows
        return _plan(replace(arm, rows=replace(rows, share=count / context.tokens)), context, arm.tail)

    make, least, most = (by_tail, 1, context.tokens) if arm.rows is None else (by_rows, 0, context.tokens - arm.tail)
    plan = _closest(make, lambda one: plan_macs(arm, one, context, geometry).total - target, least, most)
    return replace(plan, target=target)


def _closest(make: Callable[[int], RowPlan], excess: Callable[[RowPlan], int], low: int, high: int) -> RowPlan:
    """The plan ``make(n)``, ``n`` from ``low`` to ``high``, whose growing excess is closest to none; ties to less."""
    least = low
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if excess(make(middle)) >= 0 else (middle + 1, high)
    candidates = [make(number) for number in range(max(least, low - 1), low + 1)]
    return min(candidates, key=lambda one: abs(excess(one)))
