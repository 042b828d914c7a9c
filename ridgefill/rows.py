"""Which rows of a prompt run every layer: the tail, and prefix rows picked by a selector (paper section 2.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ridgefill.arms import Arm
from ridgefill.cost import Geometry, exact_macs, fill_macs, match_no_fill_tail
from ridgefill.errors import ConfigError
from ridgefill.models.base import Adapter
from ridgefill.passes import LowerPass, selector_layers


@dataclass(frozen=True)
class RowPlan:
    """How the late layers treat each prompt row.

    filled: int64 ``[F]``, rows written from a prediction. exact: int64 ``[E]``, rows that run every layer, the
    tail included; both ascending. tail: rows at the end counted as the tail. start: first position the late
    layers can see. selected: exact prefix rows picked on top of the tail.
    """

    filled: Tensor
    exact: Tensor
    tail: int
    start: int
    selected: tuple[int, ...]


def plan_rows(arm: Arm, adapter: Adapter, lower: LowerPass, geometry: Geometry, seed: int) -> RowPlan:
    """Rows of one prompt under ``arm``; ``seed`` (63 bits) is the sample's own, for random rows only.

    A prompt no longer than the tail has no filled rows and runs exactly.
    """
    tokens = lower.tokens
    tail = min(tokens, _tail(arm, tokens, geometry))
    prefix = tokens - tail
    count = min(prefix, extra_rows(arm, tokens)) if arm.extra in ("attention_rows", "random_rows") else 0
    if count and arm.extra == "attention_rows":
        selected = attention_rows(adapter, lower, prefix, count)
    else:
        selected = random_rows(prefix, count, seed)
    plan = planned(tokens, prefix, selected.tolist(), adapter.device)
    return replace(plan, filled=plan.filled[:0], start=prefix) if arm.fill == "none" else plan


def planned(tokens: int, prefix: int, selected: Sequence[int], device: torch.device) -> RowPlan:
    """A prompt's rows with the prefix positions ``selected`` and the tail exact, and all others filled."""
    is_exact = torch.zeros(tokens, dtype=torch.bool)
    is_exact[list(selected)] = True
    is_exact[prefix:] = True
    exact, filled = (mask.nonzero()[:, 0].to(device) for mask in (is_exact, ~is_exact))
    return RowPlan(filled, exact, tokens - prefix, 0, tuple(selected))


def extra_rows(arm: Arm, tokens: int) -> int:
    """Rows that ``rows_share`` of a prompt of ``tokens`` tokens buys."""
    return round(arm.rows_share * tokens)


def attention_rows(adapter: Adapter, lower: LowerPass, prefix: int, count: int) -> Tensor:
    """The ``count`` prefix rows that receive the most attention from the question window, int64, ascending.

    Summed over the heads of the selector layers below the split; ties go to the lower position. ConfigError where no
    such layer lies below the split.
    """
    if not lower.window_inputs:
        raise ConfigError(
            f"no layer below split {lower.split} ranks rows by attention; expected a split above one of the layers "
            f"{', '.join(map(str, selector_layers(adapter)))}, or rows that are chosen in another way"
        )
    first, end = lower.window
    rows = adapter.rows(torch.arange(first, end, device=adapter.device))
    received = torch.zeros(end, dtype=torch.float32, device=adapter.device)
    for layer, x in lower.window_inputs.items():
        received += adapter.attention_received(layer, x, rows, lower.cache)
    order = torch.sort(received[:prefix], descending=True, stable=True).indices
    return order[:count].sort().values.cpu()


def random_rows(prefix: int, count: int, seed: int) -> Tensor:
    """``count`` prefix rows drawn uniformly without replacement, int64, ascending."""
    drawn = np.random.default_rng(seed).choice(prefix, size=count, replace=False) if count else []
    return torch.tensor(sorted(int(row) for row in drawn), dtype=torch.int64)


def plan_macs(arm: Arm, plan: RowPlan, tokens: int, geometry: Geometry) -> int:
    """Multiply-accumulates of a prefill under this plan, by the cost model."""
    if arm.split is None or arm.fill == "exact":
        return exact_macs(geometry, tokens)
    return fill_macs(
        geometry,
        tokens=tokens,
        split=arm.split,
        tail=plan.tail,
        fill=arm.fill,
        exact_rows=plan.selected,
        mapped_split_layer=arm.split_layer == "mapped",
    )


def _tail(arm: Arm, tokens: int, geometry: Geometry) -> int:
    if arm.extra == "longer_tail":
        return arm.tail + extra_rows(arm, tokens)
    if arm.extra == "compute_matched_tail" and arm.split is not None and tokens > arm.tail:
        mapped = arm.split_layer == "mapped"
        target = fill_macs(
            geometry, tokens=tokens, split=arm.split, tail=arm.tail, fill="ridge", mapped_split_layer=mapped
        )
        return match_no_fill_tail(geometry, tokens, arm.split, target)[0]
    return arm.tail
