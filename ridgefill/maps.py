"""Ridge maps, and their files in the published layout (METHOD section 2); the files' details are in ``mapfiles``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ridgefill.mapfiles.folder import Carried, read_folder, write_folder
from ridgefill.mapfiles.int8 import moved
from ridgefill.mapfiles.layers import layer_bytes
from ridgefill.mapfiles.manifest import Manifest, read_manifest
from ridgefill.mapfiles.match import require_match
from ridgefill.mapfiles.names import Encoding


@dataclass(frozen=True)
class RidgeMaps:
    """Maps of one split. weights[l]: ``[d_out, d_in]``; biases[l]: ``[d_out]``, for every late layer.

    ``weights`` may be an ``Int8Weights``: int8 in memory, numbers only while a layer is used.
    """

    split: int
    weights: Mapping[int, Tensor]
    biases: Mapping[int, Tensor]

    def predict(self, layer: int, state: Tensor) -> Tensor:
        """Split state ``[..., d_in]`` to the predicted block input of ``layer``, ``[..., d_out]``, in its type."""
        return torch.nn.functional.linear(state, self.weights[layer], self.biases[layer])

    def to(self, dtype: torch.dtype, device: torch.device) -> RidgeMaps:
        """The same maps in another type and place."""
        biases = {layer: bias.to(device, dtype) for layer, bias in self.biases.items()}
        return RidgeMaps(self.split, moved(self.weights, dtype, device), biases)


def save_maps(
    folder: Path,
    maps: RidgeMaps,
    *,
    architecture: Mapping[str, Any],
    fit: Mapping[str, Any],
    encoding: Encoding = "bf16",
    carried: Carried | None = None,
    readme: str | None = None,
) -> dict[str, str]:
    """Write maps into ``folder`` as one unit and return the SHA-256 of every file by name.

    Files: ``proj.L<l>.safetensors`` (``proj.<l>.weight`` and ``.bias``, bf16) or ``proj8.L<l>.safetensors``
    (``proj.<l>.codes`` int8, ``.scale`` and ``.bias`` bf16), ``ridgefill.json``, ``SHA256SUMS``, and ``README.md`` when
    one is given. The folder appears complete or not at all; it must not exist yet.
    """
    carried = carried or Carried()
    layers = (
        (layer, layer_bytes(layer, maps.weights, maps.biases[layer], encoding, carried.header))
        for layer in sorted(maps.weights)
    )
    return write_folder(folder, Manifest(maps.split, architecture, fit, {}), encoding, layers, carried, readme)


def load_maps(folder: Path, *, architecture: Mapping[str, Any] | None = None) -> RidgeMaps:
    """Read maps in the published layout, bf16 or int8, every file checked against the manifest and SHA256SUMS.

    Raises ``MapError`` for a missing, extra or altered file, or an ``architecture`` that differs; both sides are named.
    """
    manifest = read_manifest(folder)
    if architecture is not None:
        require_match(manifest.architecture, architecture, f"the maps in {folder}")
    stored = read_folder(folder, manifest)
    return RidgeMaps(manifest.split, stored.weights, stored.biases)
