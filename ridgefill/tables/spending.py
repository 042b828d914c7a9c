"""What arms spend: exact rows, picking them, measuring corrections, and how closely a matched arm costs its target."""

from __future__ import annotations

from ridgefill.results import files_of
from ridgefill.tables.cost import SUITE_LABELS
from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry
from ridgefill.tables.grid import Column, Entry, Table
from ridgefill.tables.quality import NONE

FILES = ("ruler/arms.parquet", "documents/arms.parquet")
CAPTION = (
    "Means over prompts. Picking rows and measuring corrections are shares of exact prefill's work, and part of the "
    "work of the other tables. A matched arm is given as much work as another has on the same prompt, by the length of "
    "its tail or the number of its rows; off by is the largest difference over prompts, as a share of that work."
)


def spending_table(folder: Folder) -> Table | None:
    """One row per suite and arm that spends something beyond its fill; None where results do not say."""
    if not set(FILES) <= set(files_of(folder.root)):
        return None
    found = {(row[0], row[1]): row[2:] for row in folder.query("spending")}
    rows = []
    for suite in dict.fromkeys(suite for suite, _ in found):
        for arm in sorted((arm for one, arm in found if one == suite), key=arm_order):
            prompts, tails, selected, selection, correction, exact, matched_to, matched = found[suite, arm]
            if arm == "exact":
                continue
            identity = f"spending.{suite}.{arm}"
            origin = folder.origin("spending", f"{suite}/arms.parquet")
            off = max((abs(own - target) / target for own, target in matched), default=None) if matched else None
            rows.append(
                (
                    Entry(label=SUITE_LABELS.get(suite, suite)),
                    Entry(label=arm_label(arm), strong=arm == "ridgefill"),
                    number_entry(f"{identity}.tail", tails / prompts, "points", prompts, origin),
                    number_entry(f"{identity}.selected", selected / prompts, "points", prompts, origin),
                    number_entry(f"{identity}.selection", selection / exact, "percent_fine", prompts, origin),
                    number_entry(f"{identity}.correction", correction / exact, "percent_fine", prompts, origin),
                    Entry(label=arm_label(matched_to) if matched_to else "\u2013"),
                    NONE if off is None else number_entry(f"{identity}.off", off, "percent_fine", prompts, origin),
                )
            )
    columns = (
        Column("suite", "Prompts of", label=True),
        Column("arm", "Arm", label=True),
        Column("tail", "Tail", "tokens"),
        Column("selected", "Exact rows", "of the prefix"),
        Column("selection", "Picking them", "% of exact"),
        Column("correction", "Corrections", "% of exact"),
        Column("matched_to", "Matched to", label=True),
        Column("off", "Off by", "% of its work"),
    )
    return Table("spending", "What arms spend", CAPTION, columns, tuple(rows))
