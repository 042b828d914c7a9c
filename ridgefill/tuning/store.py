"""Files of a search: rows of every sample as Parquet, the outcome as JSON, and whose parts a folder holds."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ridgefill.errors import ConfigError, NumericsError, ResultsError
from ridgefill.files import replacing, write_text

CANDIDATES, OUTCOME, SETTINGS, PARTS, MAPS = "candidates.parquet", "tune.json", "settings.json", "parts", "maps"
_TEXT, _COUNT, _NUMBER = pa.string(), pa.int32(), pa.float64()
SCHEMA = pa.schema(
    [
        *(pa.field(name, _TEXT, nullable=False) for name in ("stage", "suite", "item", "stratum", "candidate")),
        *(pa.field(name, _COUNT) for name in ("split", "tail", "rank")),
        pa.field("rows_share", _NUMBER),
        pa.field("towards", _TEXT),
        pa.field("lam", _NUMBER),
        *(pa.field(name, _NUMBER) for name in ("score", "loss", "key_loss")),
        pa.field("key_tokens", _COUNT),
        *(pa.field(name, _COUNT, nullable=False) for name in ("prompt_tokens", "filled_rows", "exact_rows")),
        *(pa.field(name, pa.int64(), nullable=False) for name in ("macs", "exact_macs")),
        pa.field("prediction", _TEXT),
        pa.field("prompt_sha256", _TEXT),
    ]
)
"""One row for each item and candidate. score: 0 to 1, of samples. loss, key_loss: nats per token above exact, of
documents. A candidate's settings are NULL on rows of ``exact``."""


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> None:
    """Write ``rows`` as Parquet, atomically. Raises ``ResultsError`` for wrong columns, ``NumericsError`` for NaN."""
    for number, row in enumerate(rows):
        if set(row) != set(SCHEMA.names):
            raise ResultsError(f"{path}: row {number} has other columns: {sorted(set(row) ^ set(SCHEMA.names))}")
        bad = [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
        if bad:
            raise NumericsError(f"{path}: row {number} has {bad[0]} = {row[bad[0]]}; expected a finite number or NULL")
    with replacing(path) as temporary:
        try:
            table = pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMA.with_metadata(dict(metadata)))
            pq.write_table(table, temporary, compression="zstd")
        except (pa.ArrowException, TypeError, OverflowError) as error:
            raise ResultsError(f"{path}: {error}") from error


def fingerprint(settings: Mapping[str, Any]) -> str:
    """SHA-256 of everything that a search's numbers depend on."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def claim_folder(folder: Path, settings: Mapping[str, Any]) -> str:
    """Make ``folder`` this search's, or find that it is; returns the fingerprint that its parts carry.

    Raises ``ConfigError`` for a folder of another search or of something else.
    """
    path, mine = folder / SETTINGS, fingerprint(settings)
    if path.is_file():
        try:
            stored = json.loads(path.read_text("utf-8"))
        except ValueError:
            stored = {}
        other = sorted(
            key for key in {*settings, *stored} if stored.get(key) != json.loads(json.dumps(settings)).get(key)
        )
        if other:
            raise ConfigError(
                f"{folder} holds a search with another {', '.join(other)}; give a new folder as --out, or delete it"
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} exists and is no folder of a search; give a new folder as --out")
    else:
        write_text(path, json.dumps(settings, indent=1, sort_keys=True) + "\n")
    return mine
