"""What was measured on servers a second time, from the rows of requests alone, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ridgefill.recompute.bootstrap import sum_exactly

Row = dict[str, Any]
Item = tuple[str, Row, str, str, float]
"""Metric, a row with its arm and split, item, stratum, value."""


def served_items(rows: Mapping[str, Sequence[Row]]) -> Iterator[Item]:
    """Items of every ``served`` metric; none where no server was measured."""
    for row in rows.get("served/requests.parquet", ()):
        reached = (row["exact_seconds"] / row["seconds"]) / (row["exact_macs"] / row["macs"])
        length = str(row["length"])
        yield "served_ceiling", row, f"{length}/{row['repeat']:05d}", length, 100.0 * reached
    rounds: dict[tuple[str, int, str], list[tuple[Row, Row]]] = {}
    for own, stock in pairs(rows, "short", ("exact",)):
        rounds.setdefault((own["phase"], own["number"], own["arm"]), []).append((own, stock))
    for (phase, number, _), found in rounds.items():
        item, count = f"{phase}/{number:05d}", len(found)
        for metric, column in (("served_first", "first_token_seconds"), ("served_decode", "decode_seconds")):
            logs = [100.0 * math.log(own[column] / stock[column]) for own, stock in found]
            yield metric, found[0][0], item, phase, sum_exactly(logs) / count
        same = sum(own["tokens"] == stock["tokens"] for own, stock in found)
        yield "served_same", found[0][0], item, phase, 100.0 * same / count


def pairs(rows: Mapping[str, Sequence[Row]], role: str, more: tuple[str, ...] = ()) -> list[tuple[Row, Row]]:
    """Requests of a role on the server that fills (and of arms ``more``), each with the stock server's."""
    known = [row for row in rows.get("served/pairs.parquet", ()) if row["role"] == role]
    stock = {(row["phase"], row["number"], row["place"]): row for row in known if row["arm"] == "exact"}
    kept = [row for row in known if row["arm"] != "exact" or row["arm"] in more]
    order = sorted(kept, key=lambda row: (row["phase"], row["number"], row["place"]))
    return [(row, stock[row["phase"], row["number"], row["place"]]) for row in order]
