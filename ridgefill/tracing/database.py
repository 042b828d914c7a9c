"""All results in one DuckDB that can be read and nothing else: the views of every experiment, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from ridgefill.errors import ConfigError, ResultsError
from ridgefill.results import read_folder, views_text
from ridgefill.tracing.folders import Results

EXPERIMENT = "experiment"
_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
# What is set once everything is loaded; from then on no statement can change it, or reach a file.
_LOCKED = ("python_enable_replacements = false", "enable_external_access = false", "lock_configuration = true")


@dataclass(frozen=True)
class Answer:
    """What a statement gave: column names, their DuckDB types, and the rows."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class View:
    """A view over all experiments that have it: its columns with their types, and the experiments."""

    name: str
    columns: tuple[tuple[str, str], ...]
    experiments: tuple[str, ...]


class Database:
    """Every view of every experiment under one name, with the column ``experiment`` first."""

    def __init__(self, results: Sequence[Results]) -> None:
        """results: finished folders of different experiments. Raises ResultsError for one that is damaged."""
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        self._names = {f"results_{number}": one.name for number, one in enumerate(results)}
        self._having: dict[str, list[str]] = {}
        for schema, one in zip(self._names, results, strict=True):
            for view in self._load(schema, one.path):
                self._having.setdefault(view, []).append(schema)
        for view, schemas in self._having.items():
            parts = [self._part(schema, view) for schema in schemas]
            self._connection.execute(f"CREATE VIEW main.{view} AS {' UNION ALL BY NAME '.join(parts)}")
        for setting in _LOCKED:
            self._connection.execute(f"SET {setting}")

    def views(self) -> list[View]:
        """Every view by name."""
        return [
            View(view, tuple(zip(answer.columns, answer.types, strict=True)),
                 tuple(self._names[schema] for schema in self._having[view]))
            for view in sorted(self._having)
            for answer in [self.ask(f"SELECT * FROM {view} LIMIT 0")]
        ]  # fmt: skip

    def ask(self, sql: str) -> Answer:
        """The answer to one SELECT. Raises ConfigError for anything else and for what DuckDB refuses."""
        try:
            statements = duckdb.extract_statements(sql)
        except duckdb.Error as error:
            raise ConfigError(f"DuckDB cannot read the statement: {reason(error)}") from error
        if len(statements) != 1:
            raise ConfigError(f"found {len(statements)} statements, expected one SELECT")
        if statements[0].type not in _READS:
            kind = statements[0].type.name
            raise ConfigError(f"found a statement of kind {kind}, expected a SELECT; results are read, never changed")
        try:
            cursor = self._connection.execute(statements[0])
            described = cursor.description or []
            return Answer(
                tuple(str(one[0]) for one in described),
                tuple(str(one[1]) for one in described),
                tuple(tuple(row) for row in cursor.fetchall()),
            )
        except duckdb.PermissionException as error:
            raise ConfigError(
                f"a query reads the views alone, see `ridgefill query --tables`; DuckDB refused: {reason(error)}"
            ) from error
        except duckdb.Error as error:
            raise ConfigError(f"DuckDB cannot answer: {reason(error)}") from error

    def _load(self, schema: str, folder: Path) -> list[str]:
        """Copy the tables of one folder into memory and make its views over them; gives the views' names."""
        text = views_text(folder)
        self._connection.execute(f"CREATE SCHEMA {schema}")
        self._connection.execute(f"SET schema = '{schema}'")
        for number, (name, table) in enumerate(read_folder(folder).items()):
            self._connection.register("arriving", table)
            self._connection.execute(f"CREATE TABLE {schema}.file_{number} AS SELECT * FROM arriving")
            self._connection.unregister("arriving")
            text = text.replace(f"read_parquet('{name}', hive_partitioning = false)", f"{schema}.file_{number}")
        try:
            self._connection.execute(text)
        except duckdb.Error as error:
            raise ResultsError(f"the views of {folder} cannot be made: {reason(error)}") from error
        self._connection.execute("SET schema = 'main'")
        found = self._connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE schema_name = ? AND view_name <> 'measure_everywhere'", [schema]
        ).fetchall()
        return [str(name) for (name,) in found]

    def _part(self, schema: str, view: str) -> str:
        """One experiment's rows of a view, named; some tables say the experiment themselves."""
        columns = self._connection.execute(f"SELECT * FROM {schema}.{view} LIMIT 0").description or []
        rest = f"* EXCLUDE ({EXPERIMENT})" if EXPERIMENT in [one[0] for one in columns] else "*"
        name = self._names[schema].replace("'", "''")
        return f"(SELECT '{name}' AS {EXPERIMENT}, {rest} FROM {schema}.{view})"


def reason(error: Exception) -> str:
    """What DuckDB says, without its drawing of the statement, on one line."""
    lines = str(error).split("\n\nLINE ")[0].splitlines()
    return " ".join(line.strip() for line in lines if line.strip())
