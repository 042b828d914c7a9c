"""RidgeFill's results for the ledger: numbers that rest on pinned bytes alone.

The ledger calls :func:`ridgefill_measures` through the entry point group ``ledger.measures``. Two things in a
results folder are not pinned by hash: ``experiment.json``, which holds the bootstrap's settings, and tables
that no finished run has named yet. The first has to have the configuration hash that the pinned tables carry;
the second are taken for empty, so that what they would answer is ``missing``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ridgefill.errors import ResultsError
from ridgefill.measures import Measures, settings_from
from ridgefill.results import FILES, METADATA_KEYS, MORE_FILES, SCHEMAS, read_json, read_table
from ridgefill.views import MORE_MEASURES, views_over

MEASURED = FILES | {name: MORE_FILES[name] for name in MORE_MEASURES}
"""Files that measurements are read from, and their schemas."""
Lookup = Callable[[str, str, str | None, Mapping[str, Any]], Mapping[str, Any]]


def ridgefill_measures(folder: Path, files: Sequence[str]) -> Lookup | None:
    """What answers a decision rule from ``folder``, or None when these are not RidgeFill's results.

    files: paths below ``folder`` whose bytes have been checked; nothing else is read, ``experiment.json``
    apart. Raises :class:`ResultsError` when a table is not what its schema says, or when
    ``experiment.json`` is not the configuration the tables were written under.
    """
    root = Path(folder)
    path = root / "experiment.json"
    pinned = [name for name in MEASURED if name in set(files)]
    if not path.is_file() or not any(_is_ours(root / name, MEASURED[name]) for name in pinned):
        return None
    resolved = read_json(path)
    found = config_sha256(resolved)
    for name in pinned:
        marks = {key.decode(): value.decode() for key, value in _metadata(root / name).items()}
        if marks.get("config_sha256") != found:
            raise ResultsError(
                f"{path} hashes to {found[:12]}, but {name} was written under the configuration "
                f"{str(marks.get('config_sha256'))[:12]}; put the run's own experiment.json back"
            )
    return Measures(root, settings_from(resolved, path), connect_pinned(root, pinned)).lookup


def config_sha256(resolved: Any) -> str:
    """Hash of an experiment's and model's resolved configuration, as each table's metadata has it."""
    parts = {key: resolved.get(key) if isinstance(resolved, dict) else None for key in ("experiment", "model")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def connect_pinned(folder: Path, pinned: Collection[str]) -> duckdb.DuckDBPyConnection:
    """Like :func:`ridgefill.results.connect`, with every table that is not in ``pinned`` empty."""
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone='UTC'")
    views = views_over(list(MORE_MEASURES))
    for number, (name, schema) in enumerate(MEASURED.items()):
        table = read_table(folder / name, schema) if name in pinned else SCHEMAS[schema].empty_table()
        connection.register(f"pinned_{number}", table)
        views = views.replace(f"read_parquet('{name}', hive_partitioning = false)", f"pinned_{number}")
    connection.execute(views)
    return connection


def _is_ours(path: Path, schema: str) -> bool:
    marks = _metadata(path)
    return marks.get(b"schema") == schema.encode() and all(key.encode() in marks for key in METADATA_KEYS)


def _metadata(path: Path) -> dict[bytes, bytes]:
    """The file metadata of a Parquet file; empty for any other."""
    try:
        return dict(pq.read_schema(path).metadata or {})
    except (pa.ArrowException, OSError):
        return {}
