"""Multiply-accumulates that corrections add to a whole filled prefill, summed over its late layers."""

from __future__ import annotations

from ridgefill.corrections.cost import rescale_macs, state_correction_macs
from ridgefill.cost.geometry import Geometry, check
from ridgefill.cost.layer import Layer
from ridgefill.cost.parts import Fill
from ridgefill.errors import ConfigError


def correction_macs(
    geometry: Geometry,
    *,
    split: int,
    prefix: int,
    tail: int,
    rescale_rows: int = 0,
    state_correction: bool = False,
    fill: Fill = "ridge",
    mapped_split_layer: bool = True,
    rank: int | None = None,
) -> int:
    """A rescale measured on ``rescale_rows`` tail rows, 0 for none, and a terminal-state correction.

    A split layer whose filled rows have their true input has nothing to correct, and neither has a prompt without a
    prefix. A state correction parts each scan at the end of the prefix, which may pad one chunk more. Raises
    ConfigError for a fill without predictions.
    """
    check(geometry, prefix + tail, split, tail)
    if rescale_rows < 0:
        raise ConfigError(f"a rescale on {rescale_rows} tail rows was asked for; expected 0 or more")
    if (rescale_rows or state_correction) and fill not in ("ridge", "identity"):
        raise ConfigError(
            f"a {fill} fill predicts no layer input, so nothing can be corrected; expected ridge or identity"
        )
    if prefix == 0:
        return 0
    total = 0
    for number in range(split if mapped_split_layer else split + 1, geometry.layers):
        layer = geometry.layer(number)
        if layer.scan is None:
            map_row = geometry.map_row(rank) if fill == "ridge" else layer.mix
            total += _rescale(layer, geometry, min(rescale_rows, tail), map_row)
        elif state_correction:
            scan = layer.scan
            total += state_correction_macs(prefix, scan.value_heads, scan.key_dim, scan.value_dim)
            total += (scan.chunks(prefix) + scan.chunks(tail) - scan.chunks(prefix + tail)) * scan.chunk
    return total


def _rescale(layer: Layer, g: Geometry, rows: int, map_row: int) -> int:
    """One attention layer. A layer that keeps more than keys and values projects that too, from both inputs."""
    more = layer.writes - 2 * g.hidden * g.kv
    return rescale_macs(rows, g.hidden, g.kv, map_row + layer.mix) + 2 * rows * more
