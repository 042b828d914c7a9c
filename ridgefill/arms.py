"""The arms of the paper's tables 3 and 6 as frozen values: how each one treats the prefix rows.

Adding an arm is one line in ``ARMS``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from ridgefill.errors import ConfigError

Fill = Literal["exact", "none", "identity", "ridge"]
Extra = Literal["nothing", "attention_rows", "random_rows", "longer_tail", "compute_matched_tail"]


@dataclass(frozen=True)
class Arm:
    """One way of treating the prefix rows.

    fill: what late layers write for filled rows. split: first late layer, None for the exact arm. tail: rows
    at the end of the prompt that run every layer. extra: what is spent on top of the tail. rows_share: share of
    the prompt's tokens that ``extra`` spends. split_layer: ``exact`` writes the split layer's own rows from the
    true state, ``mapped`` from the map (METHOD section 2).
    """

    name: str
    fill: Fill
    extra: Extra = "nothing"
    split: int | None = None
    tail: int = 0
    rows_share: float = 0.0
    split_layer: Literal["exact", "mapped"] = "exact"

    @property
    def key(self) -> str:
        """Name with the split, unique within an experiment: ``ridgefill@19``."""
        return self.name if self.split is None else f"{self.name}@{self.split}"


ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("exact", "exact"),
        Arm("no_fill", "none"),
        Arm("identity", "identity"),
        Arm("ridgefill", "ridge"),
        Arm("pop_native", "identity"),
        Arm("identity_rows", "identity", "attention_rows"),
        Arm("identity_random_rows", "identity", "random_rows"),
        Arm("ridgefill_rows", "ridge", "attention_rows"),
        Arm("ridgefill_random_rows", "ridge", "random_rows"),
        Arm("ridgefill_longer_tail", "ridge", "longer_tail"),
        Arm("no_fill_longer_tail", "none", "compute_matched_tail"),
    )
}


def pop_split(layers: int) -> int:
    """POP's own split, two thirds of the depth rounded up: 22 of 32, 24 of 36 (paper section 3.3)."""
    return math.ceil(2 * layers / 3)


def make_arm(
    name: str,
    *,
    layers: int,
    split: int,
    tail: int,
    rows_share: float,
    split_layer: Literal["exact", "mapped"] = "exact",
) -> Arm:
    """The arm ``name`` with an experiment's settings. Raises ``ConfigError`` for a name that is not in ``ARMS``."""
    if name not in ARMS:
        raise ConfigError(f"arm {name!r} is not known; expected one of {', '.join(ARMS)}")
    base = ARMS[name]
    if name == "exact":
        return base
    if not 0 < split < layers:
        raise ConfigError(f"split {split} is outside the model; expected 1 to {layers - 1}")
    if name == "pop_native":
        return replace(base, split=pop_split(layers), tail=1)
    share = 0.0 if base.extra == "nothing" else rows_share
    return replace(base, split=split, tail=tail, rows_share=share, split_layer=split_layer)
