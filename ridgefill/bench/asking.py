"""How long a question to a million result rows takes, in a database that ``ridgefill query`` has opened."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ridgefill.bench.row import Row
from ridgefill.results import files_of
from ridgefill.tracing.database import Database
from ridgefill.tracing.folders import Results, measured

MOST_SECONDS = 1.0
TOKENS = "documents/tokens.parquet"
QUESTION = "SELECT arm, split, domain, count(*) AS n, sum(nll) AS nats FROM document_tokens GROUP BY ALL ORDER BY ALL"


@dataclass(frozen=True)
class AskSettings:
    """results: folder of published experiments; the scored tokens of one are repeated until there are ``count``."""

    results: Path
    count: int = 1_000_000
    repeats: int = 5


def rows(settings: AskSettings) -> Iterator[Row]:
    """Two rows, in seconds: a grouped question to ``document_tokens``, and opening the folder, which comes first.

    They have no value where the answer does not count every row.
    """
    found = sorted(path for path in settings.results.glob("*") if measured(path))
    if not found:
        reason = f"not measured: {settings.results} holds no finished experiment"
        yield Row("query", "seconds of a question", nan, MOST_SECONDS, MOST_SECONDS, "less", reason)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "many"
        count = many(found[0], folder, settings.count)
        begin = perf_counter()
        database = Database([Results("many", folder)])
        opening = perf_counter() - begin
        taken = []
        for _ in range(settings.repeats):
            begin = perf_counter()
            answer = database.ask(QUESTION)
            taken.append(perf_counter() - begin)
    counted = sum(int(row[3]) for row in answer.rows)
    right = counted == count
    limited = "DuckDB's scan and grouping in memory" if right else f"not measured: {counted} rows were counted"
    middle = sorted(taken)[len(taken) // 2] if right else nan
    yield Row(
        "query", f"seconds of a grouped question to {count:,} rows", middle, MOST_SECONDS, MOST_SECONDS, "less",
        limited, min(taken), max(taken),
    )  # fmt: skip
    yield Row(
        "query_opened", f"seconds to check and load a folder with {count:,} rows", opening if right else nan,
        10 * MOST_SECONDS, 10 * MOST_SECONDS, "less", "reading Parquet, checking its schema, one copy into DuckDB",
    )  # fmt: skip


def many(source: Path, folder: Path, count: int) -> int:
    """A results folder whose scored tokens are those of ``source`` under as many documents' names as make ``count``
    rows; returns how many there are."""
    for name in ("experiment.json", *files_of(source)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, folder / name)
    table = pq.read_table(source / TOKENS, partitioning=None)
    copies = [
        table.set_column(
            table.schema.get_field_index("document"),
            table.schema.field("document"),
            pc.binary_join_element_wise(table["document"], pa.scalar(str(number)), "-"),
        )
        for number in range(-(-count // table.num_rows))
    ]
    made = pa.concat_tables(copies).slice(0, count).cast(table.schema)
    pq.write_table(made.replace_schema_metadata(table.schema.metadata), folder / TOKENS, compression="zstd")
    return int(made.num_rows)
