"""Ridge maps and their files in the published layout: safetensors per layer, manifest, checksums (METHOD section 2)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ridgefill.errors import MapError
from ridgefill.files import replacing

CREDIT = "RidgeFill maps: a closed-form ridge regression from the split state to each late layer's input."
MANIFEST = "ridgefill.json"
SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class RidgeMaps:
    """Maps of one split. weights[l]: ``[d_out, d_in]``; biases[l]: ``[d_out]``, for every late layer."""

    split: int
    weights: Mapping[int, Tensor]
    biases: Mapping[int, Tensor]

    def predict(self, layer: int, state: Tensor) -> Tensor:
        """Split state ``[..., d_in]`` to the predicted input of ``layer``, ``[..., d_out]``, in the state's type."""
        return torch.nn.functional.linear(state, self.weights[layer], self.biases[layer])

    def to(self, dtype: torch.dtype, device: torch.device) -> RidgeMaps:
        """The same maps in another type and place."""
        return RidgeMaps(
            self.split,
            {layer: weight.to(device, dtype) for layer, weight in self.weights.items()},
            {layer: bias.to(device, dtype) for layer, bias in self.biases.items()},
        )


def save_maps(
    folder: Path, maps: RidgeMaps, *, architecture: Mapping[str, Any], fit: Mapping[str, Any]
) -> dict[str, str]:
    """Write bf16 maps into ``folder`` as one unit and return the SHA-256 of every file by name.

    Files: ``proj.L<l>.safetensors`` (``proj.<l>.weight`` and ``proj.<l>.bias``, bf16), ``ridgefill.json``,
    ``SHA256SUMS``. The folder appears complete or not at all; ``folder`` must not exist yet.
    """
    files = {f"proj.L{layer}.safetensors": _layer_bytes(maps, layer) for layer in sorted(maps.weights)}
    manifest = {
        "format": 1,
        "credit": CREDIT,
        "architecture": dict(architecture),
        "fit": {"split": maps.split, "encoding": "bf16", **fit},
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
    }
    files[MANIFEST] = (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode()
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    files[SUMS] = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        for name, data in files.items():
            (temporary / name).write_bytes(data)
    return sums


def load_maps(folder: Path, *, architecture: Mapping[str, Any] | None = None) -> RidgeMaps:
    """Read maps written in the published layout, every file checked against the manifest and SHA256SUMS.

    Raises ``MapError`` for a missing, extra or altered file, or an ``architecture`` that differs; both sides are named.
    """
    manifest = _manifest(folder)
    if architecture is not None:
        _require_same(manifest["architecture"], architecture, folder)
    listed = set(manifest["files"])
    sums = _sums(folder)
    altered = sorted(name for name in listed if sums.get(name) != manifest["files"][name])
    if altered:
        raise MapError(f"{folder / SUMS} and {MANIFEST} disagree about {', '.join(altered)}; fetch the maps again")
    present = {path.name for path in folder.glob("proj*.safetensors")}
    if listed != present:
        odd = sorted(listed ^ present)
        raise MapError(f"{folder} holds other files than its manifest lists ({', '.join(odd)}); fetch the maps again")
    split = int(manifest["fit"]["split"])
    weights: dict[int, Tensor] = {}
    biases: dict[int, Tensor] = {}
    for name in sorted(listed):
        layer = int(name.removeprefix("proj.L").removesuffix(".safetensors"))
        tensors = load_safetensors(_checked(folder / name, manifest["files"][name]))
        weights[layer], biases[layer] = _pair(folder / name, tensors, layer, manifest["architecture"])
    late = set(range(split, int(manifest["architecture"]["layers"])))
    if set(weights) != late:
        layers = ", ".join(str(layer) for layer in sorted(set(weights) ^ late))
        raise MapError(f"{folder} has missing or extra maps for layers {layers}; expected one per layer from {split}")
    return RidgeMaps(split, weights, biases)


def _pair(
    path: Path, tensors: Mapping[str, Tensor], layer: int, architecture: Mapping[str, Any]
) -> tuple[Tensor, Tensor]:
    """The layer's weight and bias, their shapes checked against the architecture they claim to fit."""
    weight, bias = tensors.get(f"proj.{layer}.weight"), tensors.get(f"proj.{layer}.bias")
    width = int(architecture["hidden"])
    if weight is None or bias is None or weight.shape != (width, width) or bias.shape != (width,):
        found = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in sorted(tensors.items()))
        raise MapError(
            f"{path} holds {found}; expected proj.{layer}.weight [{width}, {width}] and proj.{layer}.bias [{width}]"
        )
    return weight, bias


def _layer_bytes(maps: RidgeMaps, layer: int) -> bytes:
    data: bytes = save_safetensors(
        {
            f"proj.{layer}.weight": maps.weights[layer].to(torch.bfloat16).contiguous(),
            f"proj.{layer}.bias": maps.biases[layer].to(torch.bfloat16).contiguous(),
        }
    )
    return data


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        data = _checked(folder / MANIFEST, _sums(folder).get(MANIFEST, "no line in SHA256SUMS"))
    except FileNotFoundError as error:
        raise MapError(f"{error.filename} is missing; expected a folder of maps with {MANIFEST} and {SUMS}") from error
    manifest: dict[str, Any] = json.loads(data)
    if manifest.get("format") != 1:
        raise MapError(f"{folder / MANIFEST} has format {manifest.get('format')!r}; this version reads format 1")
    return manifest


def _sums(folder: Path) -> dict[str, str]:
    text = (folder / SUMS).read_bytes().decode("utf-8", "replace")
    pairs = [line.partition("  ") for line in text.splitlines()]
    return {name: digest for digest, _, name in pairs}


def _checked(path: Path, expected: str) -> bytes:
    data = path.read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != expected:
        raise MapError(f"{path} has SHA-256 {found}; expected {expected}. Fetch or fit the maps again")
    return data


def _require_same(stored: Mapping[str, Any], model: Mapping[str, Any], folder: Path) -> None:
    for key in sorted(set(stored) | set(model)):
        if key != "model" and stored.get(key) != model.get(key):
            raise MapError(
                f"the maps in {folder} were fitted for {key} {stored.get(key)!r}, but the model has "
                f"{model.get(key)!r}; use maps fitted for this model"
            )
