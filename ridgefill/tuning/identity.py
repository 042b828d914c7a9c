"""What a search's numbers depend on, so that only the same search carries on from what an interrupted one left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ridgefill.files import sha256_file
from ridgefill.models.load import Loaded
from ridgefill.tuning.material import Material
from ridgefill.tuning.settings import Settings
from ridgefill.tuning.store import fingerprint

VERSION = 1
"""Raised when the same settings would give other numbers."""


def identity(settings: Settings, material: Material, loaded: Loaded) -> dict[str, Any]:
    """Everything that the numbers depend on, by the name that a user knows it by."""
    asked = {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(settings).items()}
    weights = sum(float(one.double().abs().sum()) for one in loaded.network.parameters())
    texts = [(one.name, one.text) for part in (material.calibration, material.heldout) for one in part]
    stages = (material.development, material.confirmation)
    texts += [(one.name, one.text) for stage in stages for one in stage.texts]
    return {
        **asked,
        "weights": f"{weights:.12g}",
        "dtype": str(loaded.adapter.dtype),
        "tokenizer": loaded.tokenizer_sha256,
        "texts": _hashed(texts),
        "map files": {one: sha256_file(Path(one) / "SHA256SUMS") for one in settings.maps if _summed(one)},
        "version": VERSION,
    }


def _summed(folder: str) -> bool:
    return (Path(folder) / "SHA256SUMS").is_file()


def _hashed(texts: Sequence[tuple[str, str]]) -> str:
    return fingerprint({"texts": [list(one) for one in texts]})
