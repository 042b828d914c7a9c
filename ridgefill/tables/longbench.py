"""LongBench by arm: v1 by dataset, v2 by difficulty, length and domain with the sign test of discordant items.

Both suites are optional, and so are the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ridgefill.measures import Stat, describe_metric, group, item_value
from ridgefill.stats import paired_sign_test
from ridgefill.suites.longbench.files import DIFFICULTIES, LENGTHS
from ridgefill.suites.longbench.summary import V1Score, summarise_v1
from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry, stat_entry
from ridgefill.tables.grid import Column, Entry, Origin, Table
from ridgefill.tables.quality import NONE

V1, V2 = "longbench_v1", "longbench_v2"
ALL, AVERAGE = "all", "average"
Rows = Sequence[tuple[Any, ...]]
"""Of longbench.sql behind metric and arm: stratum, item, and the parts of the arm and of exact."""

_MARKS = (
    "\u2020 nothing varies that is resampled, so the interval has no width. \u2021 some items have no value and are "
    "left out."
)
V1_CAPTION = (
    "Points of 100, as the official code scores each dataset. Over all items every item weighs the same; the average "
    "of the datasets weighs datasets the same. Brackets: 95\u00a0% BCa bootstrap interval over items, resampled within "
    f"dataset; differences are paired by item. {_MARKS}"
)
V2_CAPTION = (
    "Items answered right, in per cent; an answer that names no letter is wrong, and an item for which an arm wrote "
    "nothing leaves its denominator. Brackets: 95\u00a0% percentile bootstrap interval over items. Pairs are items "
    "that count for the arm and for exact; of those, the ones that only one of the two got right are tested by the "
    f"exact two-sided sign test, one test a row and no correction for their number. {_MARKS}"
)


def v1_table(folder: Folder) -> Table | None:
    """Rows of all items, of the average of datasets and of each dataset, by arm; None where v1 was not run."""
    arms = _arms(folder, V1)
    if not arms:
        return None
    origin = folder.origin("longbench", f"{V1}/samples.parquet")
    datasets = sorted({row[0] for row in arms["exact"]})
    rows: list[tuple[Entry, ...]] = []
    for dataset in (ALL, AVERAGE, *datasets):
        for arm, found in arms.items():
            inside = found if dataset in (ALL, AVERAGE) else [row for row in found if row[0] == dataset]
            make = _average if dataset == AVERAGE else _v1_row
            rows.append((*_labels({ALL: "all items", AVERAGE: "average of datasets"}.get(dataset, dataset), arm),
                         *make(folder, f"{V1}.{arm}.{dataset}", arm, inside, origin)))  # fmt: skip
    columns = (
        Column("dataset", "Dataset", label=True),
        Column("arm", "Arm", label=True),
        Column("n", "Items"),
        Column("score", "Score", "points", interval=True),
        Column("pairs", "Pairs"),
        Column("difference", "\u2212 exact", "points", interval=True),
    )
    return Table(V1, "LongBench v1", V1_CAPTION, columns, tuple(rows), _marked(rows))


def v2_table(folder: Folder) -> Table | None:
    """Rows of all items and of each difficulty, length group and domain, by arm; None where v2 was not run."""
    arms = _arms(folder, V2)
    if not arms:
        return None
    origin = folder.origin("longbench", f"{V2}/samples.parquet")
    rows: list[tuple[Entry, ...]] = []
    for kind, name in _groups(arms["exact"]):
        label = "all items" if kind == ALL else f"{kind}: {name}"
        identity = ALL if kind == ALL else f"{kind}.{name}"
        for arm, found in arms.items():
            inside = [row for row in found if kind == ALL or _parts(row[0])[kind] == name]
            rows.append((*_labels(label, arm), *_v2_row(folder, f"{V2}.{arm}.{identity}", arm, inside, origin)))
    columns = (
        Column("items", "Items of", label=True),
        Column("arm", "Arm", label=True),
        Column("n", "Items"),
        Column("accuracy", "Right", "%", interval=True),
        Column("pairs", "Pairs"),
        Column("difference", "\u2212 exact", "points", interval=True),
        Column("arm_only", "Right in the arm only"),
        Column("exact_only", "Right in exact only"),
        Column("p_value", "Sign test", "p"),
    )
    return Table(V2, "LongBench v2", V2_CAPTION, columns, tuple(rows), _marked(rows))


def _arms(folder: Folder, metric: str) -> dict[str, list[tuple[Any, ...]]]:
    """Rows of one suite by arm, in the order of the main table; empty where it was not run."""
    groups = group(folder.query("longbench"), 2)
    here = sorted((arm for name, arm in groups if name == metric), key=arm_order)
    return {arm: groups[metric, arm] for arm in here}


def _parts(stratum: str) -> dict[str, str]:
    """Difficulty, length and domain of a v2 item, as longbench_items_v2.sql joins them."""
    return dict(zip(("difficulty", "length", "domain"), stratum.split("@", 2), strict=True))


def _groups(rows: Rows) -> list[tuple[str, str]]:
    """Kind and name of every group of v2 that has an item."""
    found = [_parts(row[0]) for row in rows]
    orders: Mapping[str, Sequence[str]] = {
        "difficulty": DIFFICULTIES, "length": LENGTHS, "domain": sorted({one["domain"] for one in found}),
    }  # fmt: skip
    kinds = [(kind, name) for kind, order in orders.items() for name in order]
    return [(ALL, ALL), *((kind, name) for kind, name in kinds if any(one[kind] == name for one in found))]


def _labels(items: str, arm: str) -> tuple[Entry, Entry]:
    return Entry(label=items), Entry(label=arm_label(arm), strong=arm == "ridgefill")


def _marked(rows: Sequence[tuple[Entry, ...]]) -> frozenset[int]:
    return frozenset(place for place, row in enumerate(rows) if row[1].strong)


def _values(rows: Rows) -> tuple[list[float | None], list[float | None]]:
    return [item_value(row[2]) for row in rows], [item_value(row[3]) for row in rows]


def _stats(folder: Folder, metric: str, rows: Rows) -> tuple[Stat, Stat]:
    """The arm's mean, and its paired difference to exact."""
    (own, exact), strata = _values(rows), [row[0] for row in rows]
    return (
        describe_metric(metric, strata, own, None, folder.settings),
        describe_metric(metric, strata, own, exact, folder.settings),
    )


def _v1_row(folder: Folder, identity: str, arm: str, rows: Rows, origin: Origin) -> tuple[Entry, ...]:
    mean, difference = _stats(folder, V1, rows)
    return (
        number_entry(f"{identity}.n", mean.n, "count", mean.n, origin),
        stat_entry(f"{identity}.score", mean, "points", origin),
        *_against_exact(identity, arm, difference, origin),
    )


def _against_exact(identity: str, arm: str, difference: Stat, origin: Origin) -> tuple[Entry, Entry]:
    if arm == "exact":
        return NONE, NONE
    return (
        number_entry(f"{identity}.pairs", difference.n, "count", difference.n, origin),
        stat_entry(f"{identity}.difference", difference, "points_difference", origin),
    )


def _average(folder: Folder, identity: str, arm: str, rows: Rows, origin: Origin) -> tuple[Entry, ...]:
    """The mean of the datasets' means, without an interval; n counts datasets' items that have a score."""
    own = _values(rows)[0]
    names = [row[0] for row in rows]
    scores = [V1Score(name, None if one is None else one / 100.0) for name, one in zip(names, own, strict=True)]
    n = sum(one is not None for one in own)
    average = number_entry(f"{identity}.score", summarise_v1(scores).average, "points", n, origin)
    return number_entry(f"{identity}.n", n, "count", n, origin), average, NONE, NONE


def _v2_row(folder: Folder, identity: str, arm: str, rows: Rows, origin: Origin) -> tuple[Entry, ...]:
    accuracy, difference = _stats(folder, V2, rows)
    start = (
        number_entry(f"{identity}.n", accuracy.n, "count", accuracy.n, origin),
        stat_entry(f"{identity}.accuracy", accuracy, "points", origin),
        *_against_exact(identity, arm, difference, origin),
    )
    if arm == "exact":
        return (*start, NONE, NONE, NONE)
    pairs = [(a, b) for a, b in zip(*_values(rows), strict=True) if a is not None and b is not None]
    test = paired_sign_test(*zip(*pairs, strict=True)) if pairs else None
    found = (None, None, None) if test is None else (test.wins, test.losses, test.p_value)
    kinds = (("arm_only", "count"), ("exact_only", "count"), ("p_value", "p_value"))
    return (*start, *(number_entry(f"{identity}.{name}", one, kind, len(pairs), origin)
                      for (name, kind), one in zip(kinds, found, strict=True)))  # fmt: skip
