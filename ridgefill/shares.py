"""What a splice says: shares of the fill's damage that go away with it (paper section 6.6, EVALUATION section 2)."""

from __future__ import annotations

import math

from ridgefill.errors import NumericsError


def loss_removed(spliced: float, filled: float) -> float | None:
    """Share of the fill's added loss that a splice takes away: ``1 - spliced / filled``.

    Both are losses above the exact arm's in nats per token, meaned over the same documents. 1 when nothing is left,
    negative when the splice makes it worse; None when the fill added no loss, of which no share exists. NumericsError
    for a loss that is not finite.
    """
    return _share(spliced, filled)


def gap_closed(spliced: float, filled: float, exact: float) -> float | None:
    """Share of the fill's gap to the exact arm that a splice closes, from scores on the same filled-region samples.

    None when the fill scores no lower than exact. NumericsError for a score that is not finite.
    """
    return _share(exact - spliced, exact - filled)


def _share(left: float, whole: float) -> float | None:
    if not (math.isfinite(left) and math.isfinite(whole)):
        raise NumericsError(f"a share of {whole} with {left} left was asked for; expected two finite numbers")
    return 1.0 - left / whole if whole > 0 else None
