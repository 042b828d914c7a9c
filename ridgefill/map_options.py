"""Which maps are fitted from given moments: what the penalty pulls them to, and their rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ridgefill.errors import ConfigError

Towards = Literal["zero", "identity"]
LamFor = Literal["split", "layer"]


@dataclass(frozen=True)
class RidgeOptions:
    """How maps are fitted. towards: what the penalty pulls them to. rank: of the map (of its difference from the
    identity when pulled towards that), None for full. lam_for: one ``lam`` is chosen for all layers of a split, or one
    for each. tokens: fitted on so many of the calibration tokens, the first ones, None for all."""

    towards: Towards = "zero"
    rank: int | None = None
    lam_for: LamFor = "split"
    tokens: int | None = None

    @property
    def suffix(self) -> str:
        """What tells these maps from the paper's in a file name: empty for those, else such as ``-identity-rank64``."""
        parts = ["identity"] * (self.towards == "identity") + [f"rank{self.rank}"] * (self.rank is not None)
        return "".join(f"-{part}" for part in (*parts, *self.fitted))

    @property
    def fitted(self) -> tuple[str, ...]:
        """What else than aim and rank differs from the paper's fit: ``lam-per-layer``, ``tokens8192``."""
        lam = ("lam-per-layer",) if self.lam_for == "layer" else ()
        return lam if self.tokens is None else (*lam, f"tokens{self.tokens}")

    @property
    def aim(self) -> str:
        """``towards``, and what else of the fit differs from the paper's, for tables that have one column for it."""
        return "-".join((self.towards, *self.fitted))

    def require(self, width: int, hidden: int) -> None:
        """Raise ``ConfigError`` unless maps from ``width`` to ``hidden`` features can be fitted so."""
        if self.towards not in ("zero", "identity"):
            raise ConfigError(f"towards is {self.towards!r}; expected 'zero' or 'identity'")
        if self.towards == "identity" and width != hidden:
            raise ConfigError(
                f"maps from {width} to {hidden} features have no identity to shrink towards; use towards='zero'"
            )
        if self.rank is not None and not 1 <= self.rank <= min(width, hidden):
            raise ConfigError(f"rank is {self.rank}; expected 1 to {min(width, hidden)}, or none for full maps")


PLAIN = RidgeOptions()
"""The paper's maps."""
