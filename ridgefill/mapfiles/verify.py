"""Every file of a folder of maps checked, and everything that is wrong with it told at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ridgefill.errors import MapError
from ridgefill.mapfiles.int8 import LARGEST
from ridgefill.mapfiles.layers import read_layer
from ridgefill.mapfiles.manifest import MANIFEST, Manifest, checked, read_manifest, read_sums
from ridgefill.mapfiles.names import encoding_of, map_files


@dataclass(frozen=True)
class Verified:
    """checked: files whose bytes were read. problems: one sentence each. absent: files that only SHA256SUMS lists and
    that are not here, which the maps do not need.
    """

    checked: int
    problems: tuple[str, ...]
    absent: tuple[str, ...]


def verify(folder: Path, step: Callable[[], object] = lambda: None) -> Verified:
    """Hashes, layer files, shapes and finite values of a folder; ``step`` is called after each file.

    Raises ``MapError`` only when there is no readable manifest, without which nothing can be judged.
    """
    manifest = read_manifest(folder)
    sums = read_sums(folder)
    problems: list[str] = []
    try:
        map_files(folder, manifest)
    except MapError as error:
        problems.append(str(error))
    unlisted = set(sums) - set(manifest.files) - {MANIFEST}
    absent = sorted(name for name in unlisted if not (folder / name).is_file())
    names = sorted(set(manifest.files) | unlisted - set(absent))
    for name in names:
        problems += _file_problems(folder, manifest, name, sums[name])
        step()
    return Verified(len(names) + 1, tuple(dict.fromkeys(problems)), tuple(absent))


def _file_problems(folder: Path, manifest: Manifest, name: str, digest: str) -> list[str]:
    try:
        data = checked(folder / name, digest)
        kind = encoding_of(name) if name in manifest.files else None
        if kind is None:
            return []
        tensors = read_layer(str(folder / name), data, *kind, manifest.d_out, manifest.d_in)
    except MapError as error:
        return [str(error)]
    return [f"{folder / name}: {part} {what}" for part, tensor in tensors.items() for what in _wrong(part, tensor)]


def _wrong(part: str, tensor: Tensor) -> list[str]:
    """What is wrong with the values of one tensor."""
    if part == "codes":
        low = int(tensor.min()) if tensor.numel() else 0
        return [f"holds the code {low}; expected -{LARGEST} to {LARGEST}"] if low < -LARGEST else []
    if bad := int((~torch.isfinite(tensor)).sum()):
        return [f"holds {bad} values that are not finite"]
    if part == "scale" and bool((tensor <= 0).any()):
        return ["holds scales of zero or less"]
    return []
