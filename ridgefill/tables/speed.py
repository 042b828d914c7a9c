"""How much sooner the first token comes, alone and among decoding users; only ratios within one process are printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from ridgefill.cost import ceiling, layer_share
from ridgefill.measures import group
from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry
from ridgefill.tables.grid import Cell, Column, Entry, Origin, Table

SPEED, SERVING = "speed/requests.parquet", "serving/runs.parquet"
Rows = Sequence[tuple[Any, ...]]
_HELD = (Column("memory", "Peak memory", "% of exact"),)
_SERVED = (Column("exact_seconds", "Exact, median", "s"), Column("seconds", "Filled, median", "s"))


def speed_table(folder: Folder) -> Table | None:
    """One row per arm and prompt length; None where no request was timed."""
    caption = (
        "Time to first token, warm: the arm and the stock model's own prefill take turns in one process, each pair of "
        "requests on a prompt of its own. Ratio of the medians, with the smallest and the largest ratio of a pair. "
        "The ceilings are what skipped layer passes, and skipped multiply-accumulates, would give if nothing else "
        "took time. Memory is the most that the tensors of a request took at once."
    )
    return speed_rows(folder, "speed", SPEED, "Time to first token", caption)


def speed_rows(folder: Folder, name: str, file: str, title: str, caption: str, served: bool = False) -> Table | None:
    """The table ``name`` over a file of timed requests, which ``<name>.sql`` reads.

    served: it was measured at the client of a server, so seconds are shown, and memory was not seen.
    """
    if not (folder.root / file).is_file():
        return None
    groups, origin = group(folder.query(name), 2), folder.origin(name, file)
    keys = sorted(groups, key=lambda key: (arm_order(key[1]), key[0]))
    rows = tuple(_speed_row(folder, origin, length, arm, groups[length, arm], served) for length, arm in keys)
    columns = (
        Column("arm", "Arm", label=True),
        Column("length", "Prompt", "tokens"),
        Column("speedup", "Sooner than exact", "\u00d7", interval=True),
        Column("layer_ceiling", "Ceiling by layers", "\u00d7"),
        Column("of_layer_ceiling", "Reached", "% of it"),
        Column("mac_ceiling", "Ceiling by work", "\u00d7"),
        Column("of_mac_ceiling", "Reached", "% of it"),
        Column("filled", "Filled rows", "%"),
        *(_SERVED if served else _HELD),
    )
    return Table(name, title, caption, columns, rows, _marked(keys))


def _speed_row(folder: Folder, origin: Origin, length: int, arm: str, rows: Rows, served: bool) -> tuple[Entry, ...]:
    identity, n = f"{origin.query.removesuffix('.sql')}.{arm}.{length}", len(rows)
    splits, exact, own, filled, kept, macs, exact_macs, peaks, exact_peaks = zip(*rows, strict=True)
    medians = {"exact_seconds": statistics.median(exact), "seconds": statistics.median(own)}
    ratio = medians["exact_seconds"] / medians["seconds"]
    pairs = [a / b for a, b in zip(exact, own, strict=True)]
    layers = folder.settings.layers
    shares = [layer_share(layers, split, there, length) for split, there in zip(splits, kept, strict=True)]
    by_layers, by_work = ceiling(math.fsum(shares) / n), ceiling(sum(macs) / sum(exact_macs))
    memory = None if None in peaks or None in exact_peaks else sum(peaks) / sum(exact_peaks)

    def cell(name: str, value: float | int | None, kind: str) -> Entry:
        return number_entry(f"{identity}.{name}", value, kind, n, origin)

    ends = [Cell(f"{identity}.speedup{end}", one, "factor", n, origin)
            for end, one in (("", ratio), (".low", min(pairs)), (".high", max(pairs)))]  # fmt: skip
    return (
        Entry(label=arm_label(arm), strong=arm == "ridgefill"),
        cell("tokens", length, "count"),
        Entry(cell=ends[0], low=ends[1], high=ends[2]),
        cell("layer_ceiling", by_layers, "factor"),
        cell("of_layer_ceiling", ratio / by_layers, "percent"),
        cell("mac_ceiling", by_work, "factor"),
        cell("of_mac_ceiling", ratio / by_work, "percent"),
        cell("filled", sum(filled) / (n * length), "percent"),
        *(
            (cell(name, value, "seconds") for name, value in medians.items())
            if served
            else (cell("memory", memory, "percent"),)
        ),
    )


def serving_table(folder: Folder) -> Table | None:
    """One row per arm and length of the long prompt; None where nothing was served."""
    caption = (
        "One long prompt is prefilled chunk by chunk among users who decode; after each chunk every user gets a token. "
        "The arm and exact take turns on the same prompts and chunks. First token: ratio of the medians, with the "
        "smallest and the largest ratio of a pair. Times between two tokens of a user are those while the prompt was "
        "prefilled, of all runs together."
    )
    return serving_rows(folder, "serving", SERVING, "A long prompt among decoding users", caption)


def serving_rows(folder: Folder, name: str, file: str, title: str, caption: str) -> Table | None:
    """The table ``name`` over a file of runs among users, which ``<name>.sql`` reads."""
    if not (folder.root / file).is_file():
        return None
    groups, origin = group(folder.query(name), 2), folder.origin(name, file)
    keys = sorted(groups, key=lambda key: (arm_order(key[1]), key[0]))
    rows = tuple(_serving_row(origin, length, arm, groups[length, arm]) for length, arm in keys)
    columns = (
        Column("arm", "Arm", label=True),
        Column("length", "Prompt", "tokens"),
        Column("first_token", "First token sooner", "\u00d7", interval=True),
        Column("users", "Users' tokens per second", "% of exact"),
        Column("mean", "Between tokens: mean", "% of exact"),
        Column("p50", "median", "% of exact"),
        Column("p99", "99th percentile", "% of exact"),
        Column("longest", "longest", "% of exact"),
    )
    return Table(name, title, caption, columns, rows, _marked(keys))


def _serving_row(origin: Origin, length: int, arm: str, rows: Rows) -> tuple[Entry, ...]:
    identity, n = f"{origin.query.removesuffix('.sql')}.{arm}.{length}", len(rows)
    first, rate, gaps, exact_first, exact_rate, exact_gaps = zip(*rows, strict=True)
    pairs = [a / b for a, b in zip(exact_first, first, strict=True)]
    ratio = statistics.median(exact_first) / statistics.median(first)
    own, exact = (np.array([one for gap in side for one in gap], dtype=np.float64) for side in (gaps, exact_gaps))

    def cell(name: str, value: float | int | None, kind: str, count: int = n) -> Entry:
        return number_entry(f"{identity}.{name}", value, kind, count, origin)

    ends = [Cell(f"{identity}.first_token{end}", one, "factor", n, origin)
            for end, one in (("", ratio), (".low", min(pairs)), (".high", max(pairs)))]  # fmt: skip
    slowest = statistics.median(exact_rate)
    return (
        Entry(label=arm_label(arm), strong=arm == "ridgefill"),
        cell("tokens", length, "count"),
        Entry(cell=ends[0], low=ends[1], high=ends[2]),
        # One chunk lets nobody get a token before the prompt does.
        cell("users", statistics.median(rate) / slowest if slowest else None, "percent"),
        cell("mean", math.fsum(own) / math.fsum(exact) * len(exact) / len(own), "percent", own.size),
        *(
            cell(name, float(np.quantile(own, level) / np.quantile(exact, level)), "percent", own.size)
            for name, level in (("p50", 0.5), ("p99", 0.99), ("longest", 1.0))
        ),
    )


def _marked(keys: Sequence[tuple[Any, ...]]) -> frozenset[int]:
    return frozenset(place for place, key in enumerate(keys) if key[1] == "ridgefill")
