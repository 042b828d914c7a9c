"""The research format: one safetensors file, ``layer.<l>`` bf16 ``[d_out, d_in + 1]``, the bias in the last column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ridgefill.errors import MapError
from ridgefill.mapfiles.manifest import few

_LAYER = re.compile(r"layer\.([0-9]{1,4})")


@dataclass(frozen=True)
class ResearchMaps:
    """Maps of such a file: weights ``[d_out, d_in]`` and biases ``[d_out]`` by layer, from ``split`` on."""

    split: int
    weights: dict[int, Tensor]
    biases: dict[int, Tensor]
    architecture: dict[str, int]


def read_research(path: Path) -> ResearchMaps:
    """Read such a file; other tensors in it are left alone. It carries no checksum and no fit data.

    Its fingerprint is only what shapes tell: ``layers`` (the last map's layer is the model's last), ``hidden`` and
    ``width``. Raises ``MapError`` for a file without maps, a gap between layers, or maps of several shapes.
    """
    try:
        tensors = load_file(path)
    except (SafetensorError, LookupError, OSError, ValueError) as error:
        raise MapError(f"{path} is not a safetensors file of maps ({error}); fetch it again") from error
    maps = {int(match[1]): tensor for name, tensor in tensors.items() if (match := _LAYER.fullmatch(name))}
    shapes = {tuple(tensor.shape) for tensor in maps.values()}
    if len(shapes) != 1 or len(next(iter(shapes))) != 2:
        raise MapError(f"{path} holds {_listed(tensors)}; expected layer.<l> [d_out, d_in + 1] of one shape")
    split, last = min(maps), max(maps)
    if gaps := sorted(set(range(split, last + 1)) - set(maps)):
        raise MapError(f"{path} has no map for layers {few(gaps)}; expected one per layer from {split}")
    d_out, columns = next(iter(shapes))
    return ResearchMaps(
        split,
        {layer: tensor[:, :-1].contiguous() for layer, tensor in sorted(maps.items())},
        {layer: tensor[:, -1].contiguous() for layer, tensor in sorted(maps.items())},
        {"layers": last + 1, "hidden": d_out, "width": columns - 1},
    )


def _listed(tensors: dict[str, Tensor]) -> str:
    return few([f"{name[:60]} {list(tensor.shape)}" for name, tensor in sorted(tensors.items())]) or "no tensor"
