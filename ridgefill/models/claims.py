"""What model files say of their own size, held against the files before memory is taken for it.

A header of a few bytes can name a model of any size, and building one takes its memory before a tensor is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ridgefill.errors import MapError, ModelError
from ridgefill.mapfiles.names import read_header

UNTIED = 3
"""Parameters that a model may have for each that its files hold: heads that are tied to the embedding are built apart,
and some exports leave out what can be made again."""
_INTEGERS = {f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
_NO_WIDTHS = ("context_length", "original_context_length", "sliding_window")


def require_held(folder: Path, config: Any, build: Any) -> None:
    """Refuse a folder whose config.json claims a model far larger than its safetensors files hold.

    build: makes the model of a configuration, on the meta device, which takes no memory. Raises ``ModelError``.
    """
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ModelError(
            f"{folder} holds no safetensors file; weights in other formats (.bin, .pt, .pth) run code when they are "
            "read and are never loaded: fetch the model as safetensors"
        )
    try:
        tensors = [one for file in files for name, one in read_header(file).items() if name != "__metadata__"]
        held = sum(math.prod(one["shape"]) for one in tensors)
    except (MapError, TypeError) as error:
        raise ModelError(
            f"{folder} holds a damaged safetensors file ({error}); fetch the model's files again"
        ) from error
    layers = int(config.get_text_config().num_hidden_layers)
    if layers > len(tensors):
        raise ModelError(_claim(folder, f"{layers} layers", f"{len(tensors)} tensors"))
    with torch.device("meta"):
        claimed = sum(parameter.numel() for parameter in build(config).parameters())
    if claimed > UNTIED * max(held, 1):
        raise ModelError(_claim(folder, f"{claimed} parameters", f"{held} numbers"))


def require_gguf_held(gguf: Path) -> None:
    """Refuse a GGUF whose tensors lie past its end, or whose settings name sizes that no tensor of it has.

    Reads the header alone. Raises ``ModelError``.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(gguf)
        widths = [int(size) for tensor in reader.tensors for size in tensor.shape]
        named = {
            name: int(field.contents())
            for name, field in reader.fields.items()
            if field.types and field.types[0].name in _INTEGERS
        }
    except Exception as error:  # the reader checks little: a wrong length ends in whatever numpy says
        reason = " ".join(str(error).split())
        raise ModelError(
            f"{gguf} could not be read as a GGUF model ({reason:.200}); delete it to fetch it again"
        ) from error
    blocks = _named(named, "block_count")
    if blocks > len(reader.tensors):
        raise ModelError(_claim(gguf, f"{blocks} layers", f"{len(reader.tensors)} tensors"))
    largest = max(widths, default=0)
    for name, size in _sizes(named).items():
        if size > largest:
            raise ModelError(_claim(gguf, f"{name} {size}", f"no tensor wider than {largest}"))


def _named(named: Mapping[str, int], ending: str) -> int:
    return max((value for name, value in named.items() if name.endswith(f".{ending}")), default=0)


def _sizes(named: Mapping[str, int]) -> dict[str, int]:
    """Settings that become a side of some matrix, and products that do."""
    sizes = {
        name: value
        for name, value in named.items()
        if name.endswith(("_length", "vocab_size", "_count", "_size"))
        and not name.endswith((*_NO_WIDTHS, "block_count"))
        and not name.startswith(("general.", "tokenizer.", "GGUF."))
    }
    for heads, width in (("head_count", "key_length"), ("head_count_kv", "value_length")):
        sizes[f"{heads} times {width}"] = _named(named, f"attention.{heads}") * _named(named, f"attention.{width}")
    return sizes


def _claim(where: Path, claimed: str, held: str) -> str:
    return f"{where} claims {claimed} and holds {held}; it is damaged or made to exhaust memory: fetch it again"
