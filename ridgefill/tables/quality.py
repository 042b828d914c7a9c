"""Tables of what the arms keep: main, contrasts, split curve, and RULER by task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ridgefill.measures import Stat, describe_metric, group, item_value, scores_samples
from ridgefill.tables.cost import cost_of_arms, share_entries
from ridgefill.tables.folder import (
    METRIC_LABELS,
    Folder,
    arm_label,
    arm_order,
    metric_kind,
    number_entry,
    stat_entry,
)
from ridgefill.tables.grid import Column, Entry, Table

FOOTNOTE = (
    "Brackets: 95\u00a0% BCa bootstrap interval, resampled within task and length or within domain. "
    "\u2020 every stratum is constant or a single item, so the interval has no width. \u2021 some items have no value "
    "and are left out."
)
CONTRASTS = (
    "Paired per sample or document. Points: higher is better; nats: lower is better. Against exact, the "
    "lower bound is one-sided, 95\u00a0%, and never better than what this many samples can show "
    "(the binomial floor). "
)
LONGBENCH = " LongBench v1 is resampled within dataset; LongBench v2 has percentiles over all items."
NONE = Entry(label="\u2013")
_RULER = (
    Column("ruler_filled", "RULER, filled region", "points", interval=True),
    Column("ruler_all", "RULER, all", "points", interval=True),
)


def _paired(rows: Sequence[tuple[Any, ...]], folder: Folder, metric: str, difference: bool) -> Stat:
    """Rows are (stratum, item, parts, baseline parts) in order."""
    values = [item_value(row[2]) for row in rows]
    against = [item_value(row[3]) for row in rows] if difference else None
    strata = [row[0] for row in rows]
    return describe_metric(metric, strata, values, against, folder.settings)


def _ruler_entry(folder: Folder, query: str, identity: str, metric: str, rows: Sequence[tuple[Any, ...]]) -> Entry:
    stat = _paired(rows, folder, metric, difference=False)
    bar = None if stat.estimate is None else stat.estimate / 100.0
    return stat_entry(identity, stat, "points", folder.metric_origin(query, metric), bar=bar)


def _loss_entry(folder: Folder, query: str, identity: str, metric: str, rows: Sequence[tuple[Any, ...]]) -> Entry:
    stat = _paired(rows, folder, metric, difference=True)
    return stat_entry(identity, stat, "nats_difference", folder.metric_origin(query, metric))


def _exact_loss(folder: Folder, metric: str, rows: Sequence[tuple[Any, ...]]) -> Entry:
    stat = _paired(rows, folder, metric, difference=False)
    origin = folder.metric_origin("main", metric)
    return number_entry(f"main.exact.{metric}.loss", stat.estimate, "nats", stat.n, origin, prefix="(", suffix=")")


def main_table(folder: Folder) -> Table:
    """Every arm at the primary split: retrieval, loss against exact, and cost."""
    groups = group(folder.query("main"), 2)
    shares = cost_of_arms(folder)
    arms = sorted({arm for arm, _ in groups}, key=arm_order)
    rows = []
    for arm in arms:
        entries = [Entry(label=arm_label(arm), strong=arm == "ridgefill")]
        for metric in ("ruler_filled", "ruler_all"):
            found = groups.get((arm, metric), [])
            entries.append(_ruler_entry(folder, "main", f"main.{arm}.{metric}", metric, found))
        for metric in ("nll_all", "nll_novel", "nll_key"):
            found = groups.get((arm, metric), [])
            if arm == "exact":
                entries.append(_exact_loss(folder, metric, found))
            else:
                entries.append(_loss_entry(folder, "main", f"main.{arm}.{metric}", metric, found))
        rows.append((*entries, *share_entries(folder, f"main.{arm}", shares.get(("ruler", arm)))))
    columns = (
        Column("arm", "Arm", label=True),
        *_RULER,
        Column("nll_all", "\u0394 loss, all", "nats", interval=True),
        Column("nll_novel", "\u0394 loss, novel", "nats", interval=True),
        Column("nll_key", "\u0394 loss, key", "nats", interval=True),
        Column("mac_share", "Work", "% of exact"),
        Column("ceiling", "Ceiling", "\u00d7"),
    )
    caption = (
        "Loss is the difference to the exact arm on the same documents, in nats per token (the exact "
        "row shows its own "
        "loss in parentheses). Work counts prefill multiply-accumulates over the RULER prompts; the "
        "ceiling is its inverse. "
    )
    marked = frozenset(i for i, arm in enumerate(arms) if arm == "ridgefill")
    return Table("main", "All arms at one split", caption + FOOTNOTE, columns, tuple(rows), marked)


def contrasts_table(folder: Folder) -> Table:
    """The paired comparisons that carry the claims."""
    groups = group(folder.query("contrasts"), 4)
    places = sorted({key[:3] for key in groups})
    rows = []
    for place, arm, baseline in places:
        for metric, words in METRIC_LABELS.items():
            found = groups.get((place, arm, baseline, metric))
            if not found:
                continue
            stat = _paired(found, folder, metric, difference=True)
            identity = f"contrasts.{arm}-{baseline}.{metric}"
            origin = folder.metric_origin("contrasts", metric)
            kind = metric_kind(metric, difference=True)
            # The non-inferiority bound answers one question only: how far below exact can this be?
            bounded = baseline == "exact" and scores_samples(metric)
            rows.append(
                (
                    Entry(label=f"{arm_label(arm)} \u2212 {arm_label(baseline)}"),
                    Entry(label=words),
                    number_entry(f"{identity}.n", stat.n, "count", stat.n, origin),
                    stat_entry(identity, stat, kind, origin),
                    number_entry(f"{identity}.lower", stat.lower_bound, kind, stat.n, origin) if bounded else NONE,
                )
            )
    caption = CONTRASTS + FOOTNOTE
    if any(metric.startswith("longbench") for *_, metric in groups):
        caption += LONGBENCH
    columns = (
        Column("comparison", "Comparison", label=True),
        Column("measure", "Measure", label=True),
        Column("n", "Pairs"),
        Column("difference", "Difference", "points or nats", interval=True),
        Column("lower", "Lower bound", "points"),
    )
    return Table("contrasts", "Paired comparisons", caption, columns, tuple(rows))


def split_curve_table(folder: Folder) -> Table:
    """Identity and ridge fill at several split layers."""
    groups = group(folder.query("split_curve"), 3)
    points = sorted({key[:2] for key in groups}, key=lambda point: (point[0], arm_order(point[1])))
    rows = []
    for split, arm in points:
        entries = [Entry(label=str(split)), Entry(label=arm_label(arm))]
        for metric in ("ruler_filled", "ruler_all", "nll_all", "nll_key"):
            found = groups.get((split, arm, metric), [])
            make = _ruler_entry if metric.startswith("ruler") else _loss_entry
            identity = f"split_curve.{split}.{arm}.{metric}"
            entries.append(make(folder, "split_curve", identity, metric, found))
        rows.append(tuple(entries))
    columns = (
        Column("split", "Split layer", label=True),
        Column("arm", "Arm", label=True),
        *_RULER,
        Column("nll_all", "\u0394 loss, all", "nats", interval=True),
        Column("nll_key", "\u0394 loss, key", "nats", interval=True),
    )
    marked = frozenset(i for i, (split, _) in enumerate(points) if split == folder.settings.split)
    caption = "The later the split, the more layers run for every token. The marked rows are the primary split. "
    return Table("split_curve", "Where to split", caption + FOOTNOTE, columns, tuple(rows), marked)


def tasks_table(folder: Folder) -> Table:
    """RULER by task and length."""
    groups = group(folder.query("tasks"), 3)
    sets = sorted({key[1:] for key in groups})
    arms = sorted({key[0] for key in groups}, key=arm_order)
    rows = []
    for arm in arms:
        entries = [Entry(label=arm_label(arm), strong=arm == "ridgefill")]
        for task, length in sets:
            found = [(*row, None) for row in groups.get((arm, task, length), [])]
            identity = f"tasks.{arm}.{task}.{length}"
            entries.append(_ruler_entry(folder, "tasks", identity, "ruler_all", found))
        rows.append(tuple(entries))
    columns = (
        Column("arm", "Arm", label=True),
        *(Column(f"{t}_{n}", t.removeprefix("niah_").replace("_", " "), f"{n} tokens", interval=True) for t, n in sets),
    )
    marked = frozenset(i for i, arm in enumerate(arms) if arm == "ridgefill")
    return Table("tasks", "RULER by task", "Points, all samples. " + FOOTNOTE, columns, tuple(rows), marked)
