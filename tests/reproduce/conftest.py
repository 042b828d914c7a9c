"""Copies of the published results and ledger, to be changed at will."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("data/results", "data/ledger/main", "data/texts", "workflow/config", "workflow/claims", "workflow/report")
Change = Callable[[list[dict[str, Any]]], list[dict[str, Any]]]


def copied(folder: Path) -> Path:
    """What a reproduction reads, in a folder of its own."""
    for name in NEEDED:
        shutil.copytree(ROOT / name, folder / name)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout's published part."""
    return copied(tmp_path / "checkout")


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published folder with the token losses of two arms alone, so that it is read quickly."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    shutil.copytree(ROOT / "data/results/gemma3_270m_arms", folder)
    edit(
        folder / "documents/tokens.parquet", lambda rows: [row for row in rows if row["arm"] in ("exact", "ridgefill")]
    )
    return folder


@pytest.fixture
def two_runs(small_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The same folder twice, as if it had been run again."""
    first, second = small_run, tmp_path / "again"
    shutil.copytree(first, second)
    return first, second


def flip(path: Path, place: int) -> None:
    """Flip one bit of one byte."""
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def edit(path: Path, change: Change, metadata: dict[str, str] | None = None) -> None:
    """Rewrite a Parquet file with changed rows, and perhaps other metadata."""
    table = pq.read_table(path, partitioning=None)
    rows = change(table.to_pylist())
    schema = table.schema
    if metadata is not None:
        schema = schema.with_metadata(
            {**(schema.metadata or {}), **{key.encode(): value.encode() for key, value in metadata.items()}}
        )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def set_value(column: str, value: Callable[[Any], Any], chosen: Callable[[dict[str, Any]], bool]) -> Change:
    """Change one column of the first row that is chosen."""

    def change(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        row = next(row for row in rows if chosen(row))
        row[column] = value(row[column])
        return rows

    return change


def lines_with(text: str, words: Sequence[str]) -> list[str]:
    """Lines of a text that have all of the words."""
    return [line for line in text.splitlines() if all(word in line for word in words)]
