"""What the arms cost: multiply-accumulates, the ceiling they allow, and the clock."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from ridgefill.tables.folder import Folder, arm_label, arm_order, number_entry
from ridgefill.tables.grid import Column, Entry, Table

SUITE_LABELS = {"ruler": "RULER prompts", "documents": "documents"}


@dataclass(frozen=True)
class Cost:
    """One arm on one suite: prompts, total multiply-accumulates, and per-prompt seconds (arm, exact)."""

    prompts: int
    macs: int
    exact_macs: int
    seconds: tuple[float, ...]
    exact_seconds: tuple[float, ...]

    @property
    def share(self) -> float | None:
        """Multiply-accumulates over those of the exact arm on the same prompts."""
        return self.macs / self.exact_macs if self.exact_macs else None

    @property
    def ceiling(self) -> float | None:
        """Most the prefill can speed up if time follows multiply-accumulates."""
        return self.exact_macs / self.macs if self.macs else None

    @property
    def median_seconds(self) -> float | None:
        return statistics.median(self.seconds) if self.seconds else None

    @property
    def measured_share(self) -> float | None:
        """Median over prompts of the arm's prefill time over the exact one of the same prompt and process."""
        ratios = [own / exact for own, exact in zip(self.seconds, self.exact_seconds, strict=True)]
        return statistics.median(ratios) if ratios else None


def cost_of_arms(folder: Folder) -> dict[tuple[str, str], Cost]:
    """Costs at the primary split by (suite, arm); suites in print order."""
    return {
        (suite, arm): Cost(int(n), int(macs), int(exact), tuple(seconds), tuple(exact_seconds))
        for suite, arm, n, macs, exact, seconds, exact_seconds in folder.query("cost")
    }


def share_entries(folder: Folder, identity: str, cost: Cost | None) -> tuple[Entry, Entry]:
    """Work share and ceiling of one arm as two entries."""
    origin = folder.origin("cost", "ruler/samples.parquet")
    share, ceiling, n = (cost.share, cost.ceiling, cost.prompts) if cost else (None, None, 0)
    return (
        number_entry(f"{identity}.mac_share", share, "percent", n, origin),
        number_entry(f"{identity}.ceiling", ceiling, "factor", n, origin),
    )


def cost_table(folder: Folder) -> Table:
    """Counted work against the clock, for every arm and suite."""
    rows, marked = [], set()
    costs = cost_of_arms(folder)
    suites = list(dict.fromkeys(suite for suite, _ in costs))
    keys = [(s, a) for s in suites for a in sorted((a for t, a in costs if t == s), key=arm_order)]
    for suite, arm in keys:
        cost, identity = costs[suite, arm], f"cost.{suite}.{arm}"
        file = "samples" if suite == "ruler" else "documents"
        work, clock = (folder.origin("cost", f"{suite}/{name}.parquet") for name in (file, "timings"))
        timed = len(cost.seconds)
        measured = cost.measured_share
        rows.append(
            (
                Entry(label=SUITE_LABELS.get(suite, suite)),
                Entry(label=arm_label(arm), strong=arm == "ridgefill"),
                number_entry(f"{identity}.prompts", cost.prompts, "count", cost.prompts, work),
                number_entry(f"{identity}.macs", cost.macs / cost.prompts, "giga", cost.prompts, work),
                number_entry(f"{identity}.mac_share", cost.share, "percent", cost.prompts, work, bar=cost.share),
                number_entry(f"{identity}.ceiling", cost.ceiling, "factor", cost.prompts, work),
                number_entry(f"{identity}.seconds", cost.median_seconds, "seconds", timed, clock),
                number_entry(f"{identity}.measured_share", measured, "percent", timed, clock, bar=measured),
                number_entry(f"{identity}.speedup", 1 / measured if measured else None, "factor", timed, clock),
            )
        )
        if arm == "ridgefill":
            marked.add(len(rows) - 1)
    columns = (
        Column("suite", "Prompts of", label=True),
        Column("arm", "Arm", label=True),
        Column("prompts", "Prompts"),
        Column("gmacs", "Work per prompt", "G multiply-acc."),
        Column("mac_share", "Work", "% of exact"),
        Column("ceiling", "Ceiling", "\u00d7"),
        Column("seconds", "Prefill, median", "s"),
        Column("measured_share", "Time", "% of exact"),
        Column("speedup", "Measured", "\u00d7"),
    )
    caption = (
        "Work is counted, time is measured: prefill of the same prompt by the arm and by the exact "
        "arm in one process, "
        "median over prompts of the ratio. The ceiling is the inverse of the work share. Times "
        "belong to the machine of "
        "the run; work does not."
    )
    return Table("cost", "Counted work against the clock", caption, columns, tuple(rows), frozenset(marked))
