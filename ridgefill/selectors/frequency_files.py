"""Token frequencies on disk, and the published tables beside the Flash-Next maps."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from ridgefill.errors import MapError
from ridgefill.files import replacing
from ridgefill.selectors.frequency import Frequencies

COUNTS = "counts"
ROWSEL = ("score", "score_none", "score_all")


def save_frequencies(path: Path, frequencies: Frequencies) -> None:
    """Write ``counts``, int64 ``[vocabulary]``, complete or not at all. Raises ``ResultsError`` on a full disk."""
    with replacing(path) as temporary:
        save_file({COUNTS: np.array(frequencies.counts, dtype=np.int64)}, temporary)


def load_frequencies(path: Path) -> Frequencies:
    """Read what ``save_frequencies`` wrote. Raises ``MapError`` for a file that is anything else."""
    tables = _read(path, (COUNTS,))
    counts = tables[COUNTS]
    if counts.dtype != np.int64 or counts.ndim != 1 or counts.size == 0 or int(counts.min()) < 0:
        raise MapError(f"{path} holds no counts of tokens ({counts.dtype} {list(counts.shape)}); count them again")
    return Frequencies(tuple(int(count) for count in counts))


def load_rowsel(path: Path) -> Mapping[str, NDArray[np.float32]]:
    """The published ``rowsel.safetensors``: ``score``, ``score_none``, ``score_all``, each f32 ``[vocabulary]``.

    Its card calls them token-frequency tables and says no more, so nothing here ranks rows by them. Raises
    ``MapError`` for another layout.
    """
    tables = _read(path, ROWSEL)
    shapes = {(table.dtype.name, table.shape) for table in tables.values()}
    if len(shapes) != 1 or tables["score"].dtype != np.float32 or tables["score"].ndim != 1:
        found = ", ".join(f"{name} {table.dtype} {list(table.shape)}" for name, table in tables.items())
        raise MapError(
            f"{path} holds {found}; expected three tables of float32, one number per token of one vocabulary"
        )
    return tables


def _read(path: Path, names: tuple[str, ...]) -> dict[str, NDArray[np.float32]]:
    try:
        tables = load_file(path)
    except (OSError, SafetensorError, LookupError, AttributeError, TypeError, ValueError) as error:
        raise MapError(f"{path} cannot be read as safetensors ({error}); fetch or write it again") from error
    if sorted(tables) != sorted(names):
        found = ", ".join(name[:60] for name in sorted(tables)[:8]) or "nothing"
        raise MapError(f"{path} holds {found}; expected {', '.join(names)}")
    return {name: tables[name] for name in names}
