"""What of two runs' results must have the same bytes, and what cannot."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import safe_open
from safetensors.numpy import load_file, save

# Seconds, and the tables and figures that are made of them.
MEASURED = ("timings.parquet", "cost.md", "cost.csv", "cost.png", "cost.svg", "pareto.png", "pareto.svg")
# What names entries of the ledger on purpose: numbers of attempts, their times, hashes of files that name them.
NAMES_ENTRIES = (
    "cells.json", "provenance.json", "report.html", "verdicts.json", "verification.json",
    "verdicts.md", "verdicts.csv", "timeline.png", "timeline.svg",
)  # fmt: skip


def digests(results: Path) -> dict[str, str]:
    """SHA-256 of every file that an interruption must not change, by its path below ``results``.

    Parquet files and moments name the attempt that wrote them; they are hashed with that one number left out.
    """
    found = {}
    for path in sorted(path for path in results.rglob("*") if path.is_file()):
        if path.name not in (*MEASURED, *NAMES_ENTRIES):
            found[str(path.relative_to(results))] = hashlib.sha256(without_attempt(path)).hexdigest()
    return found


def without_attempt(path: Path) -> bytes:
    """The bytes of a file, as they would be if it did not say which attempt wrote it."""
    if path.suffix == ".parquet":
        table = pq.read_table(path, partitioning=None)
        marks = {key: value for key, value in table.schema.metadata.items() if key != b"ledger_entry"}
        sink = pa.BufferOutputStream()
        pq.write_table(table.replace_schema_metadata(marks), sink, compression="zstd", write_statistics=True)
        return bytes(sink.getvalue().to_pybytes())
    if path.name == "moments.safetensors":
        with safe_open(path, "numpy") as stored:
            marks = {key: value for key, value in stored.metadata().items() if key != "ledger_entry"}
        # The order of a header's metadata changes from one writing to the next.
        return json.dumps(marks, sort_keys=True).encode() + bytes(save(load_file(path)))
    return path.read_bytes()
