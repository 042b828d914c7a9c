"""Multiply-accumulates that corrections add to a prefill, per late layer. Nothing here imports torch."""

from __future__ import annotations


def rescale_macs(rows: int, hidden: int, kv: int, map_row: int) -> int:
    """Measuring the scales of one attention layer on ``rows`` tail rows.

    Each row is mapped once (``map_row``, 0 for the identity fill) and its keys and values (``kv`` wide each) are
    projected from the true and from the predicted input, whichever of the two is rescaled.
    """
    return rows * (map_row + 2 * 2 * hidden * kv)


def state_correction_macs(prefix: int, value_heads: int, key_dim: int, value_dim: int) -> int:
    """Correcting the state of one recurrent layer: two weights per prefix row and head, then one scaled addition."""
    return 2 * prefix * value_heads + value_heads * key_dim * value_dim
