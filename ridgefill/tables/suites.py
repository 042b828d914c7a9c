"""How closely arms follow the exact arm, token by token, and a second question to a cache that was filled for a first.

The suites behind these tables are optional, and so are the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ridgefill.measures import describe, group, in_points, item_value
from ridgefill.results import files_of
from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry, stat_entry
from ridgefill.tables.grid import Column, Entry, Table
from ridgefill.tables.quality import NONE

TOKENS = "agreement/tokens.parquet"
COLUMNS = (
    Column("agreement_top1", "Agreement", "%", interval=True),
    Column("agreement_kl", "KL, mean", "nats", interval=True),
    Column("agreement_kl_median", "KL, median", "nats", interval=True),
    Column("turn1", "Turn 1, filled region", "points", interval=True),
    Column("turn2", "Turn 2, filled region", "points", interval=True),
)
CAPTION = (
    "Every arm is fed the exact arm's greedy continuation of the same documents, one token at a time: agreement is the "
    "share of steps with the same most likely token, KL is from exact; the median is each document's own, averaged "
    "over documents. Turn 2 asks for another key of a text whose cache was filled, and whose rows were chosen, for "
    "turn 1; each arm goes on from its own answer. Brackets: 95\u00a0% BCa bootstrap interval over documents within "
    "prompt length, or over samples within length. "
)
SHARES = ((0.0, 0.2), (0.2, 0.5), (0.5, math.inf))
"""From which share of copyable tokens a document belongs to a group, and below which."""
POST_PROMPT = (
    "Along the tokens that really follow the prompt. Mean KL and top-1 are averaged over documents; median and 99th "
    "percentile are over all tokens of all documents. The last columns are mean KL of the documents in which that "
    "share of the tokens ends a run of nine that occurred before."
)


def suites_table(folder: Folder) -> Table | None:
    """One row per arm of the agreement or the turns suite at the primary split; None where neither was run."""
    groups = group(folder.query("suites"), 2)
    arms = sorted({arm for arm, _ in groups}, key=arm_order)
    if not arms:
        return None
    rows = []
    for arm in arms:
        entries = [Entry(label=arm_label(arm), strong=arm == "ridgefill")]
        for column in COLUMNS:
            itself = arm == "exact" and column.key.startswith("agreement")
            found = groups.get((arm, column.key))
            entries.append(NONE if itself or found is None else _measured(folder, arm, column.key, found))
        rows.append(tuple(entries))
    marked = frozenset(i for i, arm in enumerate(arms) if arm == "ridgefill")
    head = Column("arm", "Arm", label=True)
    return Table(
        "suites", "Following the exact model, and a second question", CAPTION, (head, *COLUMNS), tuple(rows), marked
    )


def _measured(folder: Folder, arm: str, metric: str, rows: Sequence[tuple[Any, ...]]) -> Entry:
    stat = describe([row[0] for row in rows], [item_value(row[2]) for row in rows], None, folder.settings)
    kind = "points" if in_points(metric) else "nats_fine"
    return stat_entry(f"suites.{arm}.{metric}", stat, kind, folder.metric_origin("suites", metric))


def post_prompt_table(folder: Folder) -> Table | None:
    """One row per arm: the tokens after the documents' prompts; None where the agreement suite was not run."""
    if TOKENS not in files_of(folder.root):
        return None
    groups = group(folder.query("post_prompt"), 1)
    arms = sorted((arm for (arm,) in groups), key=arm_order)
    rows = tuple(_along_the_text(folder, arm, groups[(arm,)]) for arm in arms)
    columns = (
        Column("arm", "Arm", label=True),
        Column("top1", "Top-1", "%", interval=True),
        Column("kl", "KL, mean", "nats", interval=True),
        Column("median", "KL, median", "nats"),
        Column("p99", "KL, p99", "nats"),
        Column("copy_low", "KL, copyable < 0.2", "nats"),
        Column("copy_middle", "KL, 0.2 to 0.5", "nats"),
        Column("copy_high", "KL, 0.5 or more", "nats"),
    )
    marked = frozenset(i for i, arm in enumerate(arms) if arm == "ridgefill")
    return Table("post_prompt", "The tokens after the prompt", POST_PROMPT, columns, rows, marked)


def _along_the_text(folder: Folder, arm: str, rows: Sequence[tuple[Any, ...]]) -> tuple[Entry, ...]:
    """Rows of post_prompt.sql for one arm: stratum, document, tokens, copyable ones, top-1 and KL of each."""
    origin, identity = folder.origin("post_prompt", TOKENS), f"post_prompt.{arm}"
    strata = [row[0] for row in rows]
    means = [None if None in row[5] else item_value(row[5]) for row in rows]
    hits = describe(strata, [item_value(row[4]) for row in rows], None, folder.settings)
    kl = describe(strata, means, None, folder.settings)
    tokens = [value for row in rows for value in row[5] if value is not None]
    entries = [
        Entry(label=arm_label(arm), strong=arm == "ridgefill"),
        stat_entry(f"{identity}.top1", hits, "points", origin),
        stat_entry(f"{identity}.kl", kl, "nats_fine", origin),
    ]
    for name, share in (("median", 0.5), ("p99", 0.99)):
        value = float(np.quantile(np.array(tokens), share)) if tokens else None
        entries.append(number_entry(f"{identity}.{name}", value, "nats_fine", len(tokens), origin))
    for name, (least, below) in zip(("copy_low", "copy_middle", "copy_high"), SHARES, strict=True):
        inside = [mean for row, mean in zip(rows, means, strict=True) if least <= row[3] / row[2] < below]
        known = [mean for mean in inside if mean is not None]
        value = math.fsum(known) / len(known) if known else None
        entries.append(number_entry(f"{identity}.{name}", value, "nats_fine", len(known), origin))
    return tuple(entries)
