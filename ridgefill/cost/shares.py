"""Shares of the work that remain, and the speedup they allow."""

from __future__ import annotations

from ridgefill.errors import ConfigError


def layer_share(layers: int, split: int, tail: int, tokens: int) -> float:
    """Share of layer passes that remain, ``(P S + T L) / (N L)``; 1 for a prompt no longer than the tail."""
    if layers < 1 or tokens < 1 or not 0 <= split <= layers or tail < 0:
        raise ConfigError(
            f"cost of layers={layers} split={split} tail={tail} tokens={tokens} is undefined; expected "
            "at least one layer and token, and a split within the layers"
        )
    exact = min(tail, tokens)
    return ((tokens - exact) * split + exact * layers) / (tokens * layers)


def ceiling(share: float) -> float:
    """Largest speedup when ``share`` of the work remains and nothing else takes time."""
    if not share > 0.0:
        raise ConfigError(f"a share of {share} of the work has no ceiling; expected a number above 0")
    return 1.0 / share
