"""What a folder of maps says it holds, from its manifest and file headers. Nothing here imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ridgefill.errors import MapError
from ridgefill.mapfiles.manifest import read_manifest
from ridgefill.mapfiles.names import map_files, read_header


def describe(path: Path) -> dict[str, Any]:
    """As JSON: split, encoding, architecture, fit, every layer's file, bytes and tensors, other files, total bytes.

    Tensors are not read and files not hashed (``verify`` does). Raises ``MapError`` for what is no folder of maps.
    """
    if not path.is_dir():
        raise MapError(f"{path} is not a folder; expected the folder that holds ridgefill.json")
    manifest = read_manifest(path)
    encoding, names = map_files(path, manifest)
    layers = [
        {"layer": layer, "file": name, "bytes": (path / name).stat().st_size, "tensors": _tensors(path / name)}
        for layer, name in names.items()
    ]
    others = sorted(set(manifest.files) - set(names.values()))
    return {
        "path": str(path),
        "split": manifest.split,
        "layers": int(manifest.architecture["layers"]),
        "encoding": encoding,
        "d_in": manifest.d_in,
        "d_out": manifest.d_out,
        "maps": layers,
        "other_files": {name: (path / name).stat().st_size for name in others},
        "bytes": sum((path / name).stat().st_size for name in manifest.files),
        "architecture": dict(manifest.architecture),
        "fit": dict(manifest.fit),
        "credit": {key: manifest.extra[key] for key in ("name", "authors", "license", "doi") if key in manifest.extra},
    }


def _tensors(path: Path) -> dict[str, str]:
    header = read_header(path)
    return {name: f"{one['dtype']} {one['shape']}" for name, one in header.items() if name != "__metadata__"}
