"""A folder of maps, read with every file checked and written as one unit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ridgefill.errors import ResultsError
from ridgefill.files import replacing
from ridgefill.mapfiles.int8 import Int8Weights
from ridgefill.mapfiles.layers import read_layer
from ridgefill.mapfiles.manifest import MANIFEST, SUMS, Manifest, checked, read_manifest, sums_text
from ridgefill.mapfiles.names import Encoding, encoding_of, file_name, header_of, map_files

README = "README.md"


@dataclass(frozen=True)
class Carried:
    """What map files hold besides maps and their manifest's own keys; saved again with them.

    extra: further keys of the manifest (credit of a release, its own fingerprints). header: ``__metadata__`` of the
    layer files. beside: other files that the manifest lists (state corrections, row scores), by name.
    """

    extra: Mapping[str, Any] = field(default_factory=dict)
    header: Mapping[str, str] = field(default_factory=dict)
    beside: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """What a folder holds.

    weights: bf16 ``[d_out, d_in]`` by layer, or ``Int8Weights``. biases: ``[d_out]`` by layer, of the same type as the
    weights that are read (fp32 for int8).
    """

    manifest: Manifest
    encoding: Encoding
    weights: Mapping[int, Tensor]
    biases: Mapping[int, Tensor]
    carried: Carried


def read_folder(folder: Path, manifest: Manifest | None = None) -> Stored:
    """Everything in a folder, each file checked against the manifest. int8 maps stay int8 in memory.

    manifest: when the caller has read it already. Raises ``MapError`` by the name of the first file that is missing,
    altered or of another shape.
    """
    manifest = read_manifest(folder) if manifest is None else manifest
    encoding, names = map_files(folder, manifest)
    parts: dict[str, dict[int, Tensor]] = {}
    headers: dict[str, str] = {}
    for layer, name in names.items():
        data = checked(folder / name, manifest.files[name])
        tensors = read_layer(str(folder / name), data, layer, encoding, manifest.d_out, manifest.d_in)
        headers = headers or header_of(data)[0].get("__metadata__", {})
        for part, tensor in tensors.items():
            parts.setdefault(part, {})[layer] = tensor
    carried = Carried(manifest.extra, headers, beside(folder, manifest, names))
    if encoding == "bf16":
        return Stored(manifest, encoding, parts["weight"], parts["bias"], carried)
    biases = {layer: bias.float() for layer, bias in parts["bias"].items()}
    return Stored(manifest, encoding, Int8Weights(parts["codes"], parts["scale"]), biases, carried)


def beside(folder: Path, manifest: Manifest, maps: Mapping[int, str]) -> dict[str, bytes]:
    """Files that the manifest lists besides the layers' own, checked."""
    others = sorted(set(manifest.files) - set(maps.values()))
    return {name: checked(folder / name, manifest.files[name]) for name in others}


def require_new(folder: Path) -> None:
    """Refuse, with ``ResultsError``, a folder that holds something: maps are replaced whole or not at all."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise ResultsError(f"{folder} could not be written (it exists already); remove it or name another folder")


def write_folder(
    folder: Path,
    manifest: Manifest,
    encoding: Encoding,
    layers: Iterable[tuple[int, bytes]],
    carried: Carried,
    readme: str | None = None,
) -> dict[str, str]:
    """Write layer files, those carried along, manifest, checksums and a model card; return SHA-256 by name.

    The folder appears complete or not at all and must not exist yet. ``layers`` is taken one at a time, so a writer
    that makes them as it goes never holds them all. ``manifest.files`` is replaced by what was written.
    """
    require_new(folder)
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        named = ((file_name(layer, encoding), data) for layer, data in layers)
        files = {name: _written(temporary / name, data) for name, data in named}
        extra = _released_layout(carried.extra, encoding, list(files))
        files |= {name: _written(temporary / name, data) for name, data in carried.beside.items()}
        text = replace(manifest, files=files, extra=extra).text(encoding)
        sums = {**files, MANIFEST: _written(temporary / MANIFEST, text)}
        sums[SUMS] = _written(temporary / SUMS, sums_text(sums))
        if readme is not None:
            (temporary / README).write_text(readme, encoding="utf-8")
    return sums


def _written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return hashlib.sha256(data).hexdigest()


def _released_layout(extra: Mapping[str, Any], encoding: Encoding, names: Iterable[str]) -> dict[str, Any]:
    """A release's own description of its layer files, made true again for the files now written."""
    if "projector" not in extra:
        return dict(extra)
    layout = (
        {"dtype": "i8", "layout": "i8_row128", "encoding": "i8*bf16[1x128]"}
        if encoding == "int8"
        else {"dtype": "bf16", "layout": "plain_nk"}
    )
    files = {str(kind[0]): name for name in names if (kind := encoding_of(name))}
    return {**extra, "projector": {**layout, "files": files}}
