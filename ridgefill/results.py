"""Result files: one explicit Arrow schema per table, atomic writes, and DuckDB views over a results folder.

A results folder holds Parquet only (``views.sql`` beside it, never a database file). A missing number is NULL
with a ``status`` that says why; NaN is refused on the way in, because DuckDB filters it wrongly in Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ridgefill.errors import NumericsError, ResultsError
from ridgefill.files import replacing, write_text
from ridgefill.result_schemas import FILES, MORE_FILES, SCHEMAS
from ridgefill.views import views_over

__all__ = [
    "FILES",
    "METADATA_KEYS",
    "MORE_FILES",
    "SCHEMAS",
    "SCHEMA_VERSION",
    "connect",
    "files_of",
    "metadata_of",
    "read_folder",
    "read_json",
    "read_table",
    "views_text",
    "write_bytes",
    "write_json",
    "write_table",
]

SCHEMA_VERSION = "1"
METADATA_KEYS = ("git_commit", "config_sha256", "ledger_entry")


def write_bytes(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` so that a reader, or a crash, sees the old file or the whole new one."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` as indented JSON; NaN and infinities are refused (:class:`NumericsError`)."""
    try:
        text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise NumericsError(f"a NaN or infinity would have gone into {path}; store null and a status") from error
    write_text(path, text + "\n")


def read_json(path: Path) -> Any:
    """Parse a JSON file; a missing or broken one is a :class:`ResultsError`."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ResultsError(f"{path} does not exist; run the experiment that makes it first") from error
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} is not readable JSON ({error}); delete it and run its step again") from error


def write_table(path: Path, schema_name: str, rows: Sequence[Mapping[str, Any]], metadata: Mapping[str, str]) -> None:
    """Write ``rows`` as one Parquet file of schema ``schema_name``, atomically.

    ``metadata`` must give ``git_commit``, ``config_sha256`` and ``ledger_entry`` (strings; other string
    entries are kept); ``schema_version`` is added. Raises :class:`ResultsError` for a missing or unknown
    column, a wrong type or a NULL where none is allowed, and :class:`NumericsError` for NaN or infinity.
    """
    schema = _known(schema_name)
    missing = [key for key in METADATA_KEYS if key not in metadata]
    if missing:
        raise ResultsError(f"{path}: the file metadata lacks {missing}; expected at least {list(METADATA_KEYS)}")
    columns = {name: _column(path, schema.field(name), rows) for name in schema.names}
    for index, row in enumerate(rows):
        unknown = set(row) - set(schema.names)
        if unknown:
            raise ResultsError(
                f"{path}: row {index} has columns {sorted(unknown)} that schema {schema_name!r} does not"
            )
    marks = {
        "schema": schema_name,
        "schema_version": SCHEMA_VERSION,
        **{k: str(v) for k, v in metadata.items()},
    }
    table = pa.table(columns, schema=schema.with_metadata(dict(sorted(marks.items()))))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_statistics=True)
    write_bytes(path, sink.getvalue().to_pybytes())


def read_table(path: Path, schema_name: str) -> pa.Table:
    """Read a Parquet file and check that it is exactly ``schema_name`` at this version.

    Raises :class:`ResultsError` when it is missing, unreadable, of another schema or version, lacks its
    metadata, or holds a NULL where none is allowed.
    """
    schema = _known(schema_name)
    path = Path(path)
    if not path.is_file():
        raise ResultsError(f"{path} does not exist; run the step that writes it (the experiment is not complete)")
    try:
        # partitioning=None: a results folder named split=19 must not grow a column.
        table = pq.read_table(path, partitioning=None)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise ResultsError(
            f"{path} is not a readable Parquet file ({reason}); delete it and run its step again"
        ) from error
    _check_metadata(path, metadata_of(table))
    if not table.schema.equals(schema, check_metadata=False):
        raise ResultsError(
            f"{path} has columns [{_describe(table.schema)}], but schema {schema_name!r} "
            f"version {SCHEMA_VERSION} is [{_describe(schema)}]; run its step again"
        )
    for field in schema:
        if not field.nullable and table.column(field.name).null_count:
            raise ResultsError(f"{path}: column {field.name!r} holds NULLs; only columns with a status may")
    return table


def metadata_of(table: pa.Table) -> dict[str, str]:
    """The file metadata of a table read by :func:`read_table`, as strings."""
    pairs = (table.schema.metadata or {}).items()
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in pairs}


def read_folder(results_dir: Path) -> dict[str, pa.Table]:
    """Every Parquet file of a results folder by its relative path, each checked against its schema.

    Those of ``MORE_FILES`` are left out where they do not exist.
    """
    root = Path(results_dir)
    if not root.is_dir():
        raise ResultsError(f"{root} is not a results folder; expected a folder such as results/smollm2_split19")
    return {name: read_table(root / name, schema) for name, schema in files_of(root).items()}


def files_of(root: Path) -> dict[str, str]:
    """Relative path and schema of the files that a results folder should have, and of those it has beside them."""
    return FILES | {name: schema for name, schema in MORE_FILES.items() if (root / name).is_file()}


def views_text(root: Path) -> str:
    """The views over a results folder as SQL: ``views.sql``, and what the files add that are there beside."""
    return views_over([name for name in files_of(root) if name in MORE_FILES])


def connect(results_dir: Path) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB connection with the views of ``views.sql`` over one results folder.

    Every file is checked with :func:`read_table` first, so schema drift is an error and never an odd number.
    """
    root = Path(results_dir).resolve()
    read_folder(root)
    connection = duckdb.connect(":memory:")
    connection.execute("SET TimeZone='UTC'")
    folder = str(root).replace("'", "''")
    # The views name files relative to the folder, so the same text works in `duckdb -init views.sql`.
    connection.execute(views_text(root).replace("read_parquet('", f"read_parquet('{folder}/"))
    return connection


def _known(schema_name: str) -> pa.Schema:
    if schema_name not in SCHEMAS:
        raise ResultsError(f"there is no result schema {schema_name!r}; the known ones are {sorted(SCHEMAS)}")
    return SCHEMAS[schema_name]


def _describe(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}{'?' if field.nullable else ''}" for field in schema)


def _check_metadata(path: Path, found: Mapping[str, str]) -> None:
    missing = [key for key in ("schema_version", *METADATA_KEYS) if key not in found]
    if missing:
        raise ResultsError(f"{path}: the file metadata lacks {missing}; it was not written by ridgefill.results")
    if found["schema_version"] != SCHEMA_VERSION:
        raise ResultsError(
            f"{path} has schema version {found['schema_version']}, expected {SCHEMA_VERSION}; rerun its step"
        )


def _column(path: Path, field: pa.Field, rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    """One checked Arrow column; every problem is reported with its row."""
    values = []
    for index, row in enumerate(rows):
        if field.name not in row:
            raise ResultsError(f"{path}: row {index} lacks column {field.name!r}")
        value = row[field.name]
        if value is None and not field.nullable:
            raise ResultsError(f"{path}: row {index} has no {field.name!r}, a column that may not be NULL")
        values.append(value)
    try:
        column = pa.array(values, type=field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ResultsError(f"{path}: column {field.name!r} is not {field.type}: {error}") from error
    if pa.types.is_floating(field.type):
        finite = pc.fill_null(pc.is_finite(column), True).to_numpy(zero_copy_only=False)
        if not finite.all():
            index = int(finite.argmin())
            raise NumericsError(f"{path}: row {index} has {field.name} = {values[index]}; store NULL and a status")
    return column
