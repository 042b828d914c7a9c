"""What a splice or a correction takes away of the fill's damage (paper section 6.6, the layout of its Table 23)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgefill import stats
from ridgefill.measures import describe, group, item_value
from ridgefill.stats.ratios import FEWEST_DIFFERING
from ridgefill.tables.folder import MARKS, Folder, arm_label, stat_entry
from ridgefill.tables.grid import Cell, Column, Entry, Table
from ridgefill.tables.quality import FOOTNOTE, NONE

LOSS, POINTS = "nll_novel", "ruler_filled"
FILLED = "ridgefill"
CAPTION = (
    "Every arm fills as RidgeFill does, with some parts of the filled cache replaced by their exact counterparts, "
    "rescaled or corrected. Loss removed is the share of RidgeFill's added loss that is gone, gap closed the share "
    "of its distance to exact in points; negative is worse than RidgeFill. \u00a7 too few items for an interval: "
    f"exact and RidgeFill differ on fewer than {FEWEST_DIFFERING} samples, or some resamples leave nothing to share. "
)
# Rows of splices.sql for one arm and metric: stratum, item, and the parts of the arm, the fill and exact.
Rows = Sequence[tuple[Any, ...]]


def splices_table(folder: Folder) -> Table | None:
    """One row per splice or correction at the primary split, RidgeFill first; None where no such arm was run."""
    groups = group(folder.query("splices"), 3)
    arms = [arm for _, arm in sorted({key[:2] for key in groups})]
    if not set(arms) - {FILLED}:
        return None
    found = {key[1:]: rows for key, rows in groups.items()}
    rows = []
    for arm in arms:
        losses, points = found.get((arm, LOSS), []), found.get((arm, POINTS), [])
        removed, closed = (NONE, NONE) if arm == FILLED else _shares(folder, arm, losses, points)
        label = Entry(label=arm_label(arm), strong=arm == FILLED)
        added, scored = _measured(folder, arm, LOSS, losses), _measured(folder, arm, POINTS, points)
        rows.append((label, added, removed, scored, closed))
    columns = (
        Column("arm", "Arm", label=True),
        Column("nll_novel", "\u0394 loss, novel", "nats", interval=True),
        Column("loss_removed", "Loss removed", "%", interval=True),
        Column("ruler_filled", "RULER, filled region", "points", interval=True),
        Column("gap_closed", "Gap closed", "%", interval=True),
    )
    marked = frozenset(i for i, arm in enumerate(arms) if arm == FILLED)
    return Table("splices", "Where the fill's damage lies", CAPTION + FOOTNOTE, columns, tuple(rows), marked)


def _measured(folder: Folder, arm: str, metric: str, rows: Rows) -> Entry:
    """The arm's points as they are, or its loss against exact."""
    values = [item_value(row[2]) for row in rows]
    points = metric == POINTS
    against = None if points else [item_value(row[4]) for row in rows]
    stat = describe([row[0] for row in rows], values, against, folder.settings)
    origin = folder.metric_origin("splices", metric)
    return stat_entry(f"splices.{arm}.{metric}", stat, "points" if points else "nats_difference", origin)


def _shares(folder: Folder, arm: str, losses: Rows, points: Rows) -> tuple[Entry, Entry]:
    """Loss removed and gap closed; both count from exact, one upwards and one downwards."""
    return (
        _share(folder, f"splices.{arm}.loss_removed", LOSS, losses, sign=1.0, fewest=0),
        _share(folder, f"splices.{arm}.gap_closed", POINTS, points, sign=-1.0, fewest=FEWEST_DIFFERING),
    )


def _share(folder: Folder, identity: str, metric: str, rows: Rows, sign: float, fewest: int) -> Entry:
    origin = folder.metric_origin("splices", metric)
    values = [(row[0], *(item_value(parts) for parts in row[2:])) for row in rows]
    whole = [row for row in values if None not in row]
    if not whole:
        return Entry(cell=Cell(identity, None, "percent", 0, origin, "missing"))
    strata, own, filled, exact = zip(*whole, strict=True)
    share = stats.share_interval(
        [sign * (a - e) for a, e in zip(own, exact, strict=True)],
        [sign * (f - e) for f, e in zip(filled, exact, strict=True)],
        strata, folder.settings.resamples, folder.settings.seed, fewest=fewest,
    )  # fmt: skip
    status = "incomplete" if len(whole) < len(rows) and share.status != "too_few" else share.status
    ends = [
        None if value is None else Cell(identity + end, value, "percent", share.n, origin, status)
        for end, value in (("", share.estimate), (".low", share.ci_low), (".high", share.ci_high))
    ]
    cell = ends[0] or Cell(identity, None, "percent", share.n, origin, status)
    return Entry(cell=cell, low=ends[1], high=ends[2], suffix=MARKS.get(status, "") if ends[0] else "")
