"""``correction.safetensors`` as published: ``st.<layer>`` f32 ``[value_heads, value_dim, key_dim]`` per layer.

States are kept here as ``[value_heads, key_dim, value_dim]``. The two orders meet in ``_turned`` and nowhere else:
with equal key and value width a missing transpose has the right shape and the wrong numbers.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ridgefill.errors import MapError
from ridgefill.files import replacing

CORRECTION = "correction.safetensors"
"""Name of the file beside the maps."""

_NAME = re.compile(r"st\.(0|[1-9][0-9]{0,3})")


def correction_bytes(deltas: Mapping[int, Tensor]) -> bytes:
    """The file of deltas by layer, each ``[value_heads, key_dim, value_dim]``."""
    data: bytes = save_safetensors({f"st.{layer}": _turned(delta) for layer, delta in sorted(deltas.items())})
    return data


def read_correction(data: bytes, where: str) -> dict[int, Tensor]:
    """Deltas by layer from a file's bytes, ``[value_heads, key_dim, value_dim]`` fp32.

    Raises ``MapError``, naming ``where``, for anything but finite f32 tensors ``st.<layer>`` of one shape.
    """
    try:
        tensors = load_safetensors(data)
    except (SafetensorError, LookupError) as error:  # a KeyError for a type that torch does not have
        raise MapError(f"{where} is not a safetensors file ({error}); fetch it again") from error
    numbers = {name: match for name in tensors if (match := _NAME.fullmatch(name))}
    like = next(iter(tensors.values()), torch.empty(0))
    if not tensors or len(numbers) != len(tensors) or like.ndim != 3 or like.dtype != torch.float32:
        raise MapError(f"{where} holds {_listed(tensors)}; expected st.<layer> float32 [value heads, value, key width]")
    if any((one.shape, one.dtype) != (like.shape, like.dtype) for one in tensors.values()):
        raise MapError(f"{where} holds states of several shapes or types: {_listed(tensors)}; expected one of each")
    if odd := [name for name, one in tensors.items() if not bool(torch.isfinite(one).all())]:
        raise MapError(f"{where} holds values that are not finite in {', '.join(sorted(odd))}; fetch it again")
    return {
        int(match[1]): _turned(tensors[name]) for name, match in sorted(numbers.items(), key=lambda one: int(one[1][1]))
    }


def save_correction(path: Path, deltas: Mapping[int, Tensor]) -> str:
    """Write the file as one unit and return its SHA-256, for the manifest that lists it."""
    data = correction_bytes(deltas)
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def load_correction(path: Path) -> dict[int, Tensor]:
    """Read a file, see ``read_correction``. MapError when there is none."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise MapError(
            f"{path} could not be read ({getattr(error, 'strerror', None) or error}); fetch the maps again"
        ) from error
    return read_correction(data, str(path))


def _turned(states: Tensor) -> Tensor:
    """From the order of one side to that of the other, fp32 on the CPU."""
    return states.detach().to("cpu", torch.float32).transpose(-1, -2).contiguous()


def _listed(tensors: Mapping[str, Tensor]) -> str:
    held = [f"{name[:60]} {str(one.dtype)[6:]} {list(one.shape)}" for name, one in sorted(tensors.items())]
    return ", ".join(held[:8]) + (f" and {len(held) - 8} more" if len(held) > 8 else "") or "nothing"
