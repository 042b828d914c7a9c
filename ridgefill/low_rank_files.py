"""Low-rank maps on disk: their factors in one safetensors file, and what they were fitted for beside it.

The published layout holds whole matrices, which would cost a filled row what low rank saves; so factors have a layout
of their own: ``factors.safetensors`` with ``left.<l>`` ``[d_out, k]``, ``right.<l>`` ``[k, d_in]`` and ``bias.<l>``
``[d_out]``, fp32, and ``low-rank.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ridgefill.errors import MapError
from ridgefill.files import replacing, sha256_file
from ridgefill.mapfiles.match import require_match
from ridgefill.maps import RidgeMaps, load_maps
from ridgefill.ridge_options import LowRankMaps, Maps

FACTORS, MANIFEST = "factors.safetensors", "low-rank.json"
_PARTS = ("left", "right", "bias")


def save_low_rank(folder: Path, maps: LowRankMaps, *, architecture: Mapping[str, Any], fit: Mapping[str, Any]) -> None:
    """Write ``folder``, which must not exist yet, complete or not at all."""
    parts = {"left": maps.left, "right": maps.right, "bias": maps.biases}
    tensors = {f"{part}.{layer}": one.contiguous() for part, of in parts.items() for layer, one in of.items()}
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        try:
            save_file(tensors, temporary / FACTORS)
        except SafetensorError as error:  # its own type, also when the disk is full
            raise OSError(str(error)) from error
        manifest = {
            "split": maps.split,
            "identity": maps.identity,
            "architecture": dict(architecture),
            "fit": dict(fit),
            "sha256": sha256_file(temporary / FACTORS),
        }
        (temporary / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def load_fitted(folder: Path, architecture: Mapping[str, Any]) -> Maps:
    """Maps of either layout in ``folder``, checked. Raises ``MapError`` for altered files or another model's."""
    return _load_low_rank(folder, architecture) if (folder / MANIFEST).is_file() else _whole(folder, architecture)


def _whole(folder: Path, architecture: Mapping[str, Any]) -> RidgeMaps:
    return load_maps(folder, architecture=architecture)


def _load_low_rank(folder: Path, architecture: Mapping[str, Any]) -> LowRankMaps:
    path = folder / FACTORS
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        require_match(manifest["architecture"], architecture, f"the maps in {folder}")
        if sha256_file(path) != manifest["sha256"]:
            raise MapError(f"{path} is not the file that {MANIFEST} beside it describes; fit the maps again")
        tensors = load_file(path)
        split, identity = int(manifest["split"]), bool(manifest["identity"])
        if not 0 < split < int(architecture["layers"]):
            raise ValueError(f"split {split} of {architecture['layers']} layers")
        layers, hidden = range(split, int(architecture["layers"])), int(architecture["hidden"])
        width = int(architecture.get("width", hidden))
    except (OSError, ValueError, LookupError, TypeError, OverflowError, RecursionError, SafetensorError) as error:
        raise MapError(f"the low-rank maps in {folder} cannot be read ({error!s:.200}); fit them again") from error
    odd = set(tensors) ^ {f"{part}.{layer}" for part in _PARTS for layer in layers}
    if odd or not layers:
        raise MapError(
            f"{path} has missing or extra factors {', '.join(sorted(odd)) or 'of all layers'}; expected left, right "
            f"and bias of the layers {split} to {layers.stop - 1}. Fit the maps again"
        )
    for layer in layers:
        shapes = [list(tensors[f"{part}.{layer}"].shape) for part in _PARTS]
        rank = (shapes[0] or [0])[-1]
        if shapes != [[hidden, rank], [rank, width], [hidden]]:
            raise MapError(
                f"the factors of layer {layer} in {path} are {shapes[0]}, {shapes[1]} and {shapes[2]}, which do not "
                f"fit a model of {width} to {hidden} features; fit the maps again"
            )
    left, right, biases = ({layer: tensors[f"{part}.{layer}"] for layer in layers} for part in _PARTS)
    return LowRankMaps(split, left, right, biases, identity)
