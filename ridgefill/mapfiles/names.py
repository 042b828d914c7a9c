"""Names of map files, which of them a folder must hold, and their headers. Nothing here imports torch."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any, Literal

from ridgefill.errors import MapError
from ridgefill.mapfiles.manifest import Manifest, few

Encoding = Literal["bf16", "int8"]
_FILE_NAME = re.compile(r"(proj8?)\.L(0|[1-9][0-9]{0,4})\.safetensors")
_STEMS: dict[Encoding, str] = {"bf16": "proj", "int8": "proj8"}
_LENGTH = struct.Struct("<Q")
_LONGEST_HEADER = 100_000_000
"""Bytes, as the safetensors library has it."""


def file_name(layer: int, encoding: Encoding) -> str:
    """The file of one layer's map."""
    return f"{_STEMS[encoding]}.L{layer}.safetensors"


def encoding_of(name: str) -> tuple[int, Encoding] | None:
    """Layer and encoding of a map file by its name; None for any other file."""
    match = _FILE_NAME.fullmatch(name)
    if match is None:
        return None
    return int(match[2]), "int8" if match[1] == "proj8" else "bf16"


def map_files(folder: Path, manifest: Manifest) -> tuple[Encoding, dict[int, str]]:
    """Encoding and file name of every late layer, by layer in order.

    Raises ``MapError`` for a missing or extra file or layer, or a folder that mixes encodings.
    """
    absent = {name for name in manifest.files if not (folder / name).is_file()}
    stray = {path.name for path in folder.glob("proj*.safetensors")} - set(manifest.files)
    if odd := sorted(absent | stray):
        raise MapError(f"{folder} holds other files than its manifest lists ({few(odd)}); fetch the maps again")
    return listed_maps(manifest, str(folder))


def listed_maps(manifest: Manifest, where: str) -> tuple[Encoding, dict[int, str]]:
    """As ``map_files``, from the manifest alone."""
    named = {name: kind for name in manifest.files if (kind := encoding_of(name)) is not None}
    late = set(range(manifest.split, int(manifest.architecture["layers"])))
    layers = [layer for layer, _ in named.values()]
    if set(layers) != late:
        odd = few(sorted(set(layers) ^ late))
        raise MapError(f"{where} has missing or extra maps for layers {odd}; expected one per layer from {min(late)}")
    encodings = {encoding for _, encoding in named.values()}
    if len(encodings) != 1:
        raise MapError(f"{where} mixes bf16 and int8 map files; expected one encoding. Fetch the maps again")
    return encodings.pop(), dict(sorted((layer, name) for name, (layer, _) in named.items()))


def header_of(data: bytes) -> tuple[dict[str, Any], int]:
    """The JSON header of safetensors bytes, and where the tensors begin."""
    (length,) = _LENGTH.unpack_from(data)
    header: dict[str, Any] = json.loads(data[_LENGTH.size : _LENGTH.size + length])
    return header, _LENGTH.size + length


def with_metadata(data: bytes, metadata: dict[str, str]) -> bytes:
    """The same safetensors bytes with ``__metadata__`` first: the library writes its entries in no fixed order."""
    header, start = header_of(data)
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return _LENGTH.pack(len(text)) + text + data[start:]


def read_header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file, without its tensors. Raises ``MapError`` when it has none."""
    try:
        with open(path, "rb") as stream:
            (length,) = _LENGTH.unpack(stream.read(_LENGTH.size))
            if length > min(path.stat().st_size, _LONGEST_HEADER):
                raise ValueError(f"a header of {length} bytes")
            header: dict[str, Any] = json.loads(stream.read(length))
            if odd := [name for name, one in header.items() if not _describes(name, one)]:
                raise ValueError(f"no type and shape of {odd[0]!r:.60}")
    except (OSError, ValueError, AttributeError, RecursionError, struct.error) as error:
        raise MapError(f"{path} is not a safetensors file ({error}); fetch the maps again") from error
    return header


def _describes(name: str, entry: object) -> bool:
    """Whether an entry of a header is free text, or tells a tensor's type and shape."""
    return name == "__metadata__" or (isinstance(entry, dict) and {"dtype", "shape"} <= entry.keys())
