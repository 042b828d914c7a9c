"""Whether arms are shown to retrieve no worse than exact, or than POP, by a margin fixed in advance (section 3.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgefill import stats
from ridgefill.measures import describe, group, item_value
from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry, stat_entry
from ridgefill.tables.grid import Column, Entry, Table
from ridgefill.tables.quality import FOOTNOTE, NONE

MARGINS = {"exact": 2, "pop_native": 3}
"""Points that an arm may lose against each, fixed in advance (EVALUATION section 2)."""
SHOWN, NOT_SHOWN, TOO_FEW = "shown", "not shown", "n too small"
Rows = Sequence[tuple[Any, ...]]


def non_inferiority_table(folder: Folder) -> Table | None:
    """One row per arm that fills, against each of ``MARGINS``; None where no sample's needles were all filled."""
    groups = group(folder.query("non_inferiority"), 3)
    if not groups:
        return None
    keys = sorted(groups, key=lambda key: (key[0], arm_order(key[2])))
    rows = tuple(_row(folder, baseline, arm, groups[place, baseline, arm]) for place, baseline, arm in keys)
    columns = (
        Column("baseline", "Against", label=True),
        Column("arm", "Arm", label=True),
        Column("n", "Pairs"),
        Column("difference", "Difference", "points", interval=True),
        Column("bootstrap", "Bootstrap bound", "points"),
        Column("floor", "Binomial floor", "points"),
        Column("bound", "Bound", "points"),
        Column("verdict", "Not worse", label=True),
    )
    least = {name: stats.least_samples(margin) for name, margin in MARGINS.items()}
    caption = (
        "Filled-region retrieval, paired per sample. The bound is one-sided, 95\u00a0%: the lower of the bootstrap's "
        "and minus the binomial floor, the points of failures that as many samples without one leave open. Shown: "
        "the bound lies above minus the margin. Not shown is not the opposite. n too small: the floor alone reaches "
        f"the margin, so no result could show it; {MARGINS['exact']} points need {least['exact']} samples, "
        f"{MARGINS['pop_native']} points {least['pop_native']}. No margin was fixed for token losses, so none is "
        "tested. "
    )
    title = "Not worse by more than a margin?"
    return Table("non_inferiority", title, caption + FOOTNOTE, columns, rows)


def _row(folder: Folder, baseline: str, arm: str, rows: Rows) -> tuple[Entry, ...]:
    """Rows of non_inferiority.sql for one pair: stratum, item, and the parts of the arm and of the baseline."""
    identity, margin = f"non_inferiority.{arm}-{baseline}", MARGINS[baseline]
    origin = folder.metric_origin("non_inferiority", "ruler_filled")
    strata = [row[0] for row in rows]
    own, other = ([item_value(row[place]) for row in rows] for place in (2, 3))
    stat = describe(strata, own, other, folder.settings, accuracy=True)
    labels = (
        Entry(label=f"{arm_label(baseline)}, margin {margin} points"),
        Entry(label=arm_label(arm), strong=arm == "ridgefill"),
        number_entry(f"{identity}.n", stat.n, "count", stat.n, origin),
    )
    pairs = [pair for pair in zip(strata, own, other, strict=True) if None not in pair]
    if not pairs:
        return (*labels, *[NONE] * 5)
    kept, a, b = zip(*pairs, strict=True)
    found = stats.non_inferiority(a, b, margin, kept, folder.settings.resamples, folder.settings.seed)
    floor = stats.binomial_floor(found.n)
    verdict = SHOWN if found.verdict == "non_inferior" else TOO_FEW if floor >= margin else NOT_SHOWN
    numbers = {"bootstrap": found.bootstrap_bound, "floor": floor, "bound": found.bound}
    return (
        *labels,
        stat_entry(f"{identity}.difference", stat, "points_difference", origin),
        *(number_entry(f"{identity}.{name}", one, "points_fine", found.n, origin) for name, one in numbers.items()),
        number_entry(f"{identity}.verdict", verdict, "text", found.n, origin),
    )
