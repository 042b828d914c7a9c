"""One layer's tensors as the bytes of its file, and back."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors
from torch import Tensor

from ridgefill.errors import MapError
from ridgefill.mapfiles.int8 import GROUP, codes_and_scales
from ridgefill.mapfiles.manifest import few
from ridgefill.mapfiles.names import Encoding, with_metadata


def expected(layer: int, encoding: Encoding, d_out: int, d_in: int) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
    """Type and shape of every tensor in a layer's file."""
    bias = {f"proj.{layer}.bias": (torch.bfloat16, (d_out,))}
    if encoding == "bf16":
        return {f"proj.{layer}.weight": (torch.bfloat16, (d_out, d_in)), **bias}
    return {
        f"proj.{layer}.codes": (torch.int8, (d_out, d_in)),
        f"proj.{layer}.scale": (torch.bfloat16, (d_out, d_in // GROUP)),
        **bias,
    }


def layer_bytes(
    layer: int, weights: Mapping[int, Tensor], bias: Tensor, encoding: Encoding, header: Mapping[str, str]
) -> bytes:
    """The file of one layer. ``header``: the file's ``__metadata__``, in this order; none when empty."""
    if encoding == "int8":
        codes, scale = codes_and_scales(weights, layer)
        tensors = {f"proj.{layer}.codes": codes, f"proj.{layer}.scale": scale}
    else:
        tensors = {f"proj.{layer}.weight": weights[layer].to(torch.bfloat16)}
    tensors[f"proj.{layer}.bias"] = bias.to(torch.bfloat16)
    data: bytes = save_safetensors({name: tensor.contiguous() for name, tensor in tensors.items()})
    return with_metadata(data, dict(header)) if header else data


def read_layer(where: str, data: bytes, layer: int, encoding: Encoding, d_out: int, d_in: int) -> dict[str, Tensor]:
    """``weight`` and ``bias``, or ``codes``, ``scale`` and ``bias``. MapError names what the file holds instead."""
    try:
        tensors = load_safetensors(data)
    except (SafetensorError, LookupError) as error:  # a KeyError for a type that torch does not have
        raise MapError(f"{where} is not a safetensors file ({error}); fetch the maps again") from error
    wanted = expected(layer, encoding, d_out, d_in)
    found = {name: (tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors.items()}
    if found != wanted:
        raise MapError(f"{where} holds {_listed(found)}; expected {_listed(wanted)}. Use maps fitted for this model")
    return {name.rpartition(".")[2]: tensor for name, tensor in tensors.items()}


def _listed(tensors: Mapping[str, tuple[torch.dtype, tuple[int, ...]]]) -> str:
    held = [f"{n[:60]} {str(kind)[6:]} {list(shape)}" for n, (kind, shape) in sorted(tensors.items())]
    return few(held) or "nothing"
