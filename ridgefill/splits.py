"""Where other methods split a model."""

from __future__ import annotations

import math


def pop_split(layers: int) -> int:
    """POP's own split, two thirds of the depth rounded up: 22 of 32, 24 of 36 (paper section 3.3)."""
    return math.ceil(2 * layers / 3)
