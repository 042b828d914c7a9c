"""A folder of bf16 maps as a folder of int8 maps."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ridgefill.errors import MapError
from ridgefill.mapfiles.folder import Carried, beside, require_new, write_folder
from ridgefill.mapfiles.int8 import Int8Error, Int8Weights, error, quantise
from ridgefill.mapfiles.layers import layer_bytes, read_layer
from ridgefill.mapfiles.manifest import MANIFEST, checked, read_manifest
from ridgefill.mapfiles.names import header_of, map_files
from ridgefill.modelcard import model_card


def quantize(source: Path, target: Path, step: Callable[[], object] = lambda: None) -> dict[int, Int8Error]:
    """Write ``source``'s maps as int8 into ``target`` and return what it cost, by layer; ``step`` after each layer.

    Every other listed file, the credit and the fit data go with them; the fit gains ``int8``: the worst and mean
    error, and the SHA-256 of the manifest it was made from. One layer's weights are in memory at a time. Raises
    ``MapError`` when ``source`` is int8 already, damaged, or of a width that int8 cannot have; nothing is left then.
    """
    require_new(target)
    manifest = read_manifest(source)
    encoding, names = map_files(source, manifest)
    if encoding == "int8":
        raise MapError(f"{source} holds int8 maps already; quantise the bf16 maps they were made from")
    errors: dict[int, Int8Error] = {}
    layers: list[tuple[int, bytes]] = []
    header: dict[str, str] = {}
    for layer, name in names.items():
        data = checked(source / name, manifest.files[name])
        tensors = read_layer(str(source / name), data, layer, encoding, manifest.d_out, manifest.d_in)
        header = header_of(data)[0].get("__metadata__", {})
        codes, scale = quantise(tensors["weight"])
        errors[layer] = error(tensors["weight"], codes, scale)
        weights = Int8Weights({layer: codes}, {layer: scale})
        layers.append((layer, layer_bytes(layer, weights, tensors["bias"], "int8", header)))
        step()
    fit = {
        **manifest.fit,
        "int8": {
            "worst_error": max(one.worst for one in errors.values()),
            "mean_error": sum(one.mean for one in errors.values()) / len(errors),
            "from_manifest_sha256": hashlib.sha256((source / MANIFEST).read_bytes()).hexdigest(),
        },
    }
    manifest = replace(manifest, fit=fit)
    carried = Carried(manifest.extra, header, beside(source, manifest, names))
    write_folder(target, manifest, "int8", layers, carried, model_card(manifest, "int8"))
    return errors
