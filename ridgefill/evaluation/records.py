"""What every arm did on every item, as rows of results: which rows ran exactly, seeds, costs, what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgefill.evaluation.runs import ArmRun

Row = dict[str, Any]


def arm_rows(suite: str, item: str, seed: int, runs: Sequence[ArmRun], exact_macs: int) -> list[Row]:
    """Rows for ``arm_runs``, one for each arm of an item; ``seed`` is the item's own."""
    return [
        {
            "suite": suite,
            "item": item,
            "arm": run.arm.name,
            "split": run.arm.split,
            "fill": run.arm.fill,
            "prompt_order": run.arm.order,
            "seed": seed,
            "tail": run.tail,
            "filled_rows": run.filled_rows,
            "selected": list(run.selected),
            "macs": run.macs.total,
            "selection_macs": run.macs.selection,
            "correction_macs": run.macs.correction,
            "exact_macs": exact_macs,
            "matched_to": None if run.target is None or run.arm.matched is None else run.arm.matched.name,
            "target_macs": run.target,
        }
        for run in runs
    ]


def measured_rows(suite: str, item: str, runs: Sequence[ArmRun]) -> list[Row]:
    """Rows for ``measured``: what corrections measured on an item, by arm, layer and head."""
    return [
        {
            "suite": suite,
            "item": item,
            "arm": run.arm.name,
            "split": run.arm.split,
            "layer": one.layer,
            "what": one.what,
            "head": head,
            "value": value,
        }
        for run in runs
        for one in run.measured
        for head, value in enumerate(one.heads)
    ]
