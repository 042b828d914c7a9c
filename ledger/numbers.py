"""Numbers that are none: a NaN or an infinity anywhere in a Parquet file of results.

A missing number is a NULL with a status that says why. NaN compares false with everything and is filtered
differently from one reader of Parquet to the next, so a decision must never rest on a file that holds one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.measures import MeasureError

_FLOATS = ("FLOAT", "DOUBLE")


def check_parquet(path: Path) -> Iterator[str]:
    """One sentence per float column, nested ones included, with a NaN, and one per column with an infinity.

    A file that cannot be read is one sentence too. Only float columns are read, one column of one row group
    at a time.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    counts: Counter[tuple[str, str]] = Counter()
    try:
        with pq.ParquetFile(path) as file:
            leaves = _float_leaves(file)
            for number in range(file.num_row_groups):
                group: dict[tuple[str, str], int] = {}
                for leaf in leaves:
                    # A path with a dot can name two columns; such a pair is read twice and counted once.
                    group.update(_counted(file.read_row_group(number, columns=[leaf])))
                counts.update(group)
    except (pa.ArrowException, OSError, ValueError) as failure:
        yield _unreadable(path, failure)
        return
    for (what, column), count in sorted((+counts).items()):
        values = "1 value" if count == 1 else f"{count} values"
        yield f"found {what} in column {column} of {path}, {values}; expected NULL with a status"


def parquet_metadata(path: Path) -> dict[str, str]:
    """The key-value metadata of a Parquet file as text; MeasureError when it cannot be read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        found = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError, ValueError) as failure:
        raise MeasureError(_unreadable(path, failure)) from failure
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in found.items()}


def _unreadable(path: Path, failure: Exception) -> str:
    reason = " ".join(str(failure).split()) or type(failure).__name__
    return f"{path} is not a readable Parquet file ({reason}); expected one that opens: write it again"


def _float_leaves(file: Any) -> list[str]:
    """The dotted paths of the leaves that hold floats of any width, in file order."""
    columns = [file.schema.column(number) for number in range(len(file.schema))]
    floats = (leaf for leaf in columns if leaf.physical_type in _FLOATS or leaf.logical_type.type == "FLOAT16")
    return list(dict.fromkeys(leaf.path for leaf in floats))


def _counted(table: Any) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        for chunk in column.chunks:
            _count(name, chunk, counts)
    return counts


def _count(name: str, array: Any, counts: Counter[tuple[str, str]]) -> None:
    """Add what ``array`` holds to ``counts``, per leaf, walking down lists, maps and structs."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        _count(name, array.storage, counts)
    elif pa.types.is_dictionary(kind):
        _count(name, array.dictionary_decode(), counts)
    elif pa.types.is_struct(kind):
        for index, part in enumerate(array.flatten()):
            _count(f"{name}.{kind.field(index).name}", part, counts)
    elif pa.types.is_nested(kind):
        _count(name, array.flatten(), counts)
    elif pa.types.is_floating(kind):
        wide = array.cast(pa.float32()) if pa.types.is_float16(kind) else array
        counts[("NaN", name)] += pc.sum(pc.is_nan(wide)).as_py() or 0
        counts[("an infinity", name)] += pc.sum(pc.is_inf(wide)).as_py() or 0
