"""What the table of spending must hold, from the rows of ``arms.parquet`` in plain Python."""

from __future__ import annotations

from typing import Any

from ridgefill.recompute.data import ANY_SPLIT, Data

Numbers = dict[str, float]


def spending(data: Data) -> Numbers:
    """Raw values by cell id; empty where a folder lacks the files."""
    files = [f"{suite}/arms.parquet" for suite in ("ruler", "documents")]
    if not all(file in data.rows for file in files):
        return {}
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in (row for file in files for row in data.rows[file]):
        if row["arm"] != "exact" and (row["split"] == data.split or row["arm"] in ANY_SPLIT):
            groups.setdefault(f"spending.{row['suite']}.{row['arm']}", []).append(row)
    numbers: Numbers = {}
    for identity, rows in groups.items():
        whole = sum(row["exact_macs"] for row in rows)
        numbers[f"{identity}.tail"] = sum(row["tail"] for row in rows) / len(rows)
        numbers[f"{identity}.selected"] = sum(len(row["selected"]) for row in rows) / len(rows)
        numbers[f"{identity}.selection"] = sum(row["selection_macs"] for row in rows) / whole
        numbers[f"{identity}.correction"] = sum(row["correction_macs"] for row in rows) / whole
        off = [abs(row["macs"] - row["target_macs"]) / row["target_macs"] for row in rows if row["target_macs"]]
        if off:
            numbers[f"{identity}.off"] = max(off)
    return numbers
