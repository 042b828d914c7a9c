"""What a server that fills gives its users, measured at the client: long prompts, users beside them, short requests."""

from __future__ import annotations

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.measures import describe, group, item_value
from ridgefill.tables.folder import Folder, number_entry, stat_entry
from ridgefill.tables.grid import Cell, Column, Entry, Origin, Table, render_markdown
from ridgefill.tables.speed import serving_rows, speed_rows, speed_table

REQUESTS, RUNS, PAIRS = "served/requests.parquet", "served/runs.parquet", "served/pairs.parquet"
PHASES = {"fresh": "fresh server", "after_burst": "after a burst of long prompts", "mix": "1 long : 6 short"}
METRICS = {"served_first": "points_fine", "served_decode": "points_fine", "served_same": "points"}
SHOWN = ("length", "speedup", "mac_ceiling", "of_mac_ceiling")
"""Columns of a table of times that the short one of a README shows."""


def served_table(folder: Folder) -> Table | None:
    """One row per prompt length; None where no server was measured."""
    caption = (
        "Time to first token at the client of vLLM's OpenAI-compatible server with this project's plugin: one "
        "server start, filled and exact requests in turn, every prompt another one. Ratio of the medians, with "
        "the smallest and the largest ratio of a pair. The ceilings are what skipped layer passes, and skipped "
        "multiply-accumulates, would give if nothing else took time."
    )
    return speed_rows(folder, "served", REQUESTS, "Time to first token, served", caption, served=True)


def mixed_table(folder: Folder) -> Table | None:
    """One row for the long prompt among users of the server; None where no server was measured."""
    caption = (
        "Users decode on the server with the plugin; when each has had a token, one long prompt is sent, filled "
        "or exact in turn. First token: of the long prompt, ratio of the medians, with the smallest and the "
        "largest ratio of a pair. The users' tokens per second, and the times between two tokens of a user, are "
        "those between the sending of the long prompt and its first token."
    )
    return serving_rows(folder, "mixed", RUNS, "A long prompt among users of the server", caption)


def unfilled_table(folder: Folder) -> Table | None:
    """One row per phase: requests too short to fill, and long ones, against the stock server."""
    if not (folder.root / PAIRS).is_file():
        return None
    shorts, longs = group(folder.query("unfilled"), 3), group(folder.query("unfilled_long"), 2)
    keys = sorted({key[:2] for key in shorts}, key=lambda key: list(PHASES).index(key[0]))
    rows = tuple(_phase(folder, shorts, longs, phase, arm) for phase, arm in keys)
    columns = (
        Column("phase", "When", label=True),
        Column("n", "Rounds"),
        Column("served_first", "Short: first token", "% of the stock server's, above 0 is later", interval=True),
        Column("served_decode", "Short: decoding", "% likewise", interval=True),
        Column("served_same", "Short: the same tokens", "%"),
        Column("long", "Long: first token sooner", "\u00d7", interval=True),
    )
    caption = (
        "A server that fills beside the stock server without the plugin, both started for this and given the same"
        " prompts in turn, none of them twice. Short requests lie below what is filled, so nothing is gained on "
        "them; shown is 100 times the mean logarithm of the ratio of seconds, with a 95\u00a0% BCa bootstrap "
        "interval over rounds. Among long prompts they wait less, and requests that share a step need not have "
        "the same tokens. Long: ratio of the medians, with the smallest and the largest ratio of a pair."
    )
    return Table("unfilled", "Requests too short to fill, beside the stock server", caption, columns, rows)


def _phase(folder: Folder, shorts: Any, longs: Any, phase: str, arm: str) -> tuple[Entry, ...]:
    identity = f"unfilled.{phase}.{arm}"
    entries = []
    for metric, kind in METRICS.items():
        rows = shorts[phase, arm, metric]
        stat = describe([phase] * len(rows), [item_value(row[1]) for row in rows], None, folder.settings)
        origin = folder.metric_origin("unfilled", metric)
        if metric == "served_same":
            entries.append(number_entry(f"{identity}.{metric}", stat.estimate, kind, stat.n, origin))
        else:
            entries.append(stat_entry(f"{identity}.{metric}", stat, kind, origin))
    count = number_entry(f"{identity}.n", len(rows), "count", len(rows), origin)
    return (Entry(label=PHASES[phase]), count, *entries, _sooner(folder, f"{identity}.long", longs[phase, arm]))


def _sooner(folder: Folder, identity: str, rows: Any) -> Entry:
    own, stock = ([row[place] for row in rows] for place in (2, 3))
    pairs = [slow / fast for fast, slow in zip(own, stock, strict=True)]
    origin: Origin = folder.origin("unfilled_long", PAIRS)

    def cell(end: str, value: float) -> Cell:
        return Cell(identity + end, value, "factor", len(pairs), origin)

    ratio = statistics.median(stock) / statistics.median(own)
    return Entry(cell=cell("", ratio), low=cell(".low", min(pairs)), high=cell(".high", max(pairs)))


def served_markdown(results_dir: Path | str) -> str:
    """Time to first token in this project's own code and in the server, one row per length, as Markdown.

    Raises ``ResultsError`` for results of an experiment that does not have both.
    """
    folder = Folder(Path(results_dir))
    rows = []
    reference, served = "reference, in stock transformers", "vLLM's server, by the plugin"
    for where, table in ((reference, speed_table(folder)), (served, served_table(folder))):
        if table is None:
            raise ResultsError(f"{results_dir} lacks requests of one suite; expected one with speed and with served")
        places = [[column.key for column in table.columns].index(key) for key in SHOWN]
        marked = [row for row in table.rows if row[0].strong]
        rows += [(Entry(label=where), *(row[place] for place in places)) for row in marked]
        columns = (Column("where", "Filled in", label=True), *(table.columns[place] for place in places))
    lengths = {row[1].text for row in rows if row[0].label == reference}
    shown = [row for row in rows if row[1].text in lengths]
    return render_markdown(replace(table, columns=columns, rows=tuple(shown)))
