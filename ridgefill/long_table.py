"""Numbers for the ledger from anybody's Parquet files: one row per metric, arm, split and item.

The ledger calls :func:`long_table_measures` through the entry point group ``ledger.measures``, after
RidgeFill's own. Of the files it is given, those with all six columns below are read, as one table:

===========  ==================  ==========================================================================
``metric``   string              what was measured
``arm``      string              which method
``model``    string              on which model
``split``    integer or NULL     at which setting; NULL is an arm without one and belongs to every split
``item``     string or integer   which sample or document; arms are paired by it
``value``    float or NULL       the measurement; NULL when it failed, never NaN
``subset``   string, optional    a name that a prediction's set can narrow to
``stratum``  string, optional    resampling keeps the mix of strata; without it there is one stratum
===========  ==================  ==========================================================================

A number is the mean over items, or over paired differences ``arm - baseline``, with the 95 % interval of
:mod:`ridgefill.stats`: 5000 resamples, seeded by the key ``seed`` of the file metadata (a whole number in
decimal), else by 0. ``lower_bound`` exists for differences only and has no binomial floor. The items of a
number are all that any arm has for that metric, model, split and subset; one without a value is left out and
the status is ``incomplete``. Two values for one item, or an item in two strata, is ``ambiguous``: the set
should name a model or a split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ridgefill.errors import ResultsError
from ridgefill.measures import Stat, describe

Lookup = Callable[[str, str, str | None, Mapping[str, Any]], Mapping[str, Any]]

REQUIRED = ("metric", "arm", "model", "split", "item", "value")
SCHEMA = pa.schema(
    [
        pa.field("metric", pa.string(), nullable=False),
        pa.field("arm", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("split", pa.int64()),
        pa.field("item", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("subset", pa.string()),
        pa.field("stratum", pa.string()),
    ]
)
RESAMPLES = 5000
ITEMS_SQL = Path(__file__).with_name("long_table.sql")
AMBIGUOUS = Stat(None, None, None, None, 0, "ambiguous")


@dataclass(frozen=True)
class Bootstrap:
    """Resamples of every interval and the seed of their random numbers."""

    resamples: int
    seed: int


def long_table_measures(folder: Path, files: Sequence[str]) -> Lookup | None:
    """What answers a decision rule from the tables among ``files``, or None when there is none.

    files: paths below ``folder`` whose bytes have been checked; nothing else is read. Raises
    :class:`ResultsError` for an unreadable file, a column of another type, a NULL where none is allowed, a
    NaN or infinity, and files that disagree on the seed.
    """
    paths = [Path(folder) / name for name in sorted(set(files)) if name.endswith(".parquet")]
    schemas = {path: _schema(path) for path in paths}
    ours = [path for path in paths if set(REQUIRED) <= set(schemas[path].names)]
    if not ours:
        return None
    table = pa.concat_tables([_read(path, schemas[path]) for path in ours])
    return LongTable(table, _seed({path: schemas[path].metadata or {} for path in ours})).lookup


class LongTable:
    """The rows of one experiment. Open once; statistics are computed when asked for."""

    def __init__(self, table: pa.Table, seed: int) -> None:
        """table: of :data:`SCHEMA`, values finite or NULL."""
        self.bootstrap = Bootstrap(RESAMPLES, seed)
        self.connection = duckdb.connect(":memory:")
        self.connection.register("measured", table)
        self._sql = ITEMS_SQL.read_text(encoding="utf-8")

    def statistic(self, metric: str, arm: str, baseline: str | None, where: Mapping[str, Any]) -> Stat:
        """``metric`` of ``arm``, or its paired difference to ``baseline``, over the set ``where``."""
        subset, split = where.get("subset"), where.get("split")
        rows = self.connection.execute(
            self._sql,
            {
                "metric": metric,
                "arm": arm,
                "baseline": arm if baseline is None else baseline,
                "model": where.get("model"),
                "split": None if split is None else int(split),
                "subset": None if subset is None else str(subset),
            },
        ).fetchall()
        if any(strata > 1 or most > 1 for _, _, _, strata, most in rows):
            return AMBIGUOUS
        against = None if baseline is None else [row[2] for row in rows]
        return describe([row[0] for row in rows], [row[1] for row in rows], against, self.bootstrap)

    def lookup(
        self, metric: str, arm: str, baseline: str | None, where: Mapping[str, Any]
    ) -> dict[str, float | int | str | None]:
        """What a decision rule asks for: estimate, ci_low, ci_high, lower_bound, n and status by name.

        ``where`` is the rule's set: model, split, subset, each None or absent when not narrowed.
        """
        return dict(vars(self.statistic(metric, arm, baseline, where)))


def _schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> ResultsError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ResultsError(f"{path} is not a readable Parquet file ({reason}); write it again and record it again")


def _read(path: Path, schema: pa.Schema) -> pa.Table:
    """The columns of :data:`SCHEMA` in their types, checked; absent optional ones are NULL."""
    wanted = [name for name in SCHEMA.names if name in schema.names]
    for name in wanted:
        if schema.names.count(name) > 1 or not _allowed(name, schema.field(name).type):
            raise ResultsError(
                f"{path}: column {name!r} is {schema.field(schema.names.index(name)).type}, expected one column "
                f"of {SCHEMA.field(name).type}; cast it when writing the file"
            )
    try:
        with pq.ParquetFile(path) as file:
            table = file.read(columns=wanted)
        columns = [
            table.column(name).cast(SCHEMA.field(name).type)
            if name in wanted
            else pa.nulls(table.num_rows, SCHEMA.field(name).type)
            for name in SCHEMA.names
        ]
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error
    made = pa.table(columns, schema=SCHEMA)
    for field in SCHEMA:
        if not field.nullable and made.column(field.name).null_count:
            raise ResultsError(f"{path}: column {field.name!r} holds NULLs; only split and value may")
    bad = pc.sum(pc.invert(pc.is_finite(made.column("value")))).as_py() or 0
    if bad:
        raise ResultsError(f"{path}: column 'value' holds {bad} NaN or infinite values; store NULL for them")
    return made


def _allowed(name: str, kind: pa.DataType) -> bool:
    """Whether a column may have this type: any way to store the text, whole numbers or floats it stands for."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if name == "value":
        return bool(pa.types.is_floating(kind))
    whole = pa.types.is_integer(kind)
    if name == "split":
        return bool(whole or pa.types.is_null(kind))
    text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    optional = name in ("subset", "stratum") and pa.types.is_null(kind)
    return bool(text or optional or (name == "item" and whole))


def _seed(marks: Mapping[Path, Mapping[bytes, bytes]]) -> int:
    """The one seed that the files name; 0 when none does."""
    named = {path: found[b"seed"] for path, found in marks.items() if b"seed" in found}
    for path, seed in named.items():
        if not seed.isdigit() or len(seed) > 20:
            raise ResultsError(f"{path}: the metadata key seed is {seed[:30]!r}, expected 1 to 20 decimal digits")
    if len({int(seed) for seed in named.values()}) > 1:
        listed = ", ".join(f"{path.name} {seed.decode()}" for path, seed in named.items())
        raise ResultsError(f"the tables name different seeds ({listed}); expected one seed for the experiment")
    return next((int(seed) for seed in named.values()), 0)
