"""Time to first token and mixed serving a second time, from the rows of the timed requests alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ridgefill.recompute.bootstrap import quantile, sum_exactly
from ridgefill.recompute.data import Data, median
from ridgefill.recompute.served import pairs as served_pairs

Row = dict[str, Any]
Number = tuple[str, float | None, str]
"""Cell id, value, and how it is printed: ``factor``, ``percent``, ``seconds``, ``points`` or ``count``."""


def timing_numbers(data: Data) -> Iterator[Number]:
    """Every cell of the tables of timed requests and of servers; none where such runs were not made."""
    layers = int(data.model["geometry"]["layers"])
    for table, file in (("speed", "speed/requests.parquet"), ("served", "served/requests.parquet")):
        for (arm, length), rows in _groups(data.rows.get(file, [])).items():
            yield from _named(f"{table}.{arm}.{length}.", _speed(rows, length, layers))
            yield from _named(f"{table}.{arm}.{length}.", _seconds(rows) if table == "served" else _memory(rows))
    for table, file in (("serving", "serving/runs.parquet"), ("mixed", "served/runs.parquet")):
        served = data.rows.get(file, [])
        for (arm, length), rows in _groups([row for row in served if row["arm"] != "exact"]).items():
            beside = [(row, _beside(row, served)) for row in rows]
            yield from _named(f"{table}.{arm}.{length}.", _serving(beside, length))
    yield from _unfilled(data)


def _named(prefix: str, numbers: Iterable[Number]) -> Iterator[Number]:
    for name, value, kind in numbers:
        yield prefix + name, value, kind


def _groups(rows: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        found.setdefault((row["arm"], row["length"]), []).append(row)
    return found


def _beside(row: Row, served: Sequence[Row]) -> Row:
    """The exact run of the same pair."""
    same = ("pair", "length", "repeat")
    return next(one for one in served if one["arm"] == "exact" and all(one[key] == row[key] for key in same))


def _sooner(name: str, exact: list[float], own: list[float]) -> list[Number]:
    """A ratio of medians with the smallest and largest ratio of a pair."""
    each = sorted(slow / fast for slow, fast in zip(exact, own, strict=True))
    ratio = (median(exact) or 0.0) / (median(own) or 1.0)
    ends = (("", ratio), (".low", each[0]), (".high", each[-1]))
    return [(name + end, value, "factor") for end, value in ends]


def _speed(rows: list[Row], length: int, layers: int) -> Iterator[Number]:
    sooner = _sooner("speedup", [row["exact_seconds"] for row in rows], [row["seconds"] for row in rows])
    ratio = sooner[0][1] or 0.0
    passes = [(length - row["exact_rows"]) * row["split"] + row["exact_rows"] * layers for row in rows]
    by_layers = len(rows) / sum_exactly([some / (length * layers) for some in passes])
    by_work = sum(row["exact_macs"] for row in rows) / sum(row["macs"] for row in rows)
    yield from sooner
    yield "tokens", length, "count"
    yield "layer_ceiling", by_layers, "factor"
    yield "of_layer_ceiling", ratio / by_layers, "percent"
    yield "mac_ceiling", by_work, "factor"
    yield "of_mac_ceiling", ratio / by_work, "percent"
    yield "filled", sum(row["filled_rows"] for row in rows) / (len(rows) * length), "percent"


def _seconds(rows: list[Row]) -> Iterator[Number]:
    for side in ("exact_seconds", "seconds"):
        yield side, median(row[side] for row in rows), "seconds"


def _memory(rows: list[Row]) -> Iterator[Number]:
    known = all(row["peak_bytes"] is not None and row["exact_peak_bytes"] is not None for row in rows)
    peaks = [sum(row[side] for row in rows) if known else 0 for side in ("peak_bytes", "exact_peak_bytes")]
    yield "memory", peaks[0] / peaks[1] if known else None, "percent"


def _serving(pairs: list[tuple[Row, Row]], length: int) -> Iterator[Number]:
    first = "first_token_seconds"
    rates = [median(pair[side]["tokens_per_second"] for pair in pairs) or 0.0 for side in (0, 1)]
    own, exact = (sorted(gap for pair in pairs for gap in pair[side]["latencies"]) for side in (0, 1))
    means = [sum_exactly(side) / len(side) for side in (own, exact)]
    yield from _sooner("first_token", [exact[first] for _, exact in pairs], [own[first] for own, _ in pairs])
    yield "tokens", length, "count"
    yield "users", rates[0] / rates[1] if rates[1] else None, "percent"
    yield "mean", means[0] / means[1], "percent"
    for name, level in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0)):
        yield name, quantile(own, level) / quantile(exact, level), "percent"


def _unfilled(data: Data) -> Iterator[Number]:
    """Requests too short to fill against the stock server's, and long ones of the same phase."""
    longs: dict[tuple[str, str], list[tuple[Row, Row]]] = {}
    for own, stock in served_pairs(data.rows, "long"):
        longs.setdefault((own["phase"], own["arm"]), []).append((own, stock))
    first = "first_token_seconds"
    for (phase, arm), found in longs.items():
        prefix = f"unfilled.{phase}.{arm}."
        for metric in ("served_first", "served_decode", "served_same"):
            stat = data.found(metric, arm, None, data.split, phase)
            kind = "points" if metric == "served_same" else "fine"
            yield prefix + metric, stat.estimate, kind
            if kind == "fine":
                yield f"{prefix}{metric}.low", stat.low, kind
                yield f"{prefix}{metric}.high", stat.high, kind
        yield f"{prefix}n", stat.n, "count"
        yield from _named(
            prefix, _sooner("long", [stock[first] for _, stock in found], [own[first] for own, _ in found])
        )
