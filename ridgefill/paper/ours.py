"""Our numbers in the shape of a published table, from folders of results.

Every number is computed from the per-sample results, with its interval, and carries its experiment and the
ledger entry that its file names. The paper's numbers are not read here, only the names of its rows and columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ridgefill.errors import ResultsError
from ridgefill.measures import MISSING, OWN_SPLIT, Measures, Stat
from ridgefill.paper import correspond
from ridgefill.paper.correspond import Match
from ridgefill.paper.data import Cell
from ridgefill.results import read_json

PUBLISHED = Path("data/results")
MEASURED_IN = {
    "ruler": "ruler/samples.parquet",
    "nll": "documents/tokens.parquet",
    "turn2": "turns/samples.parquet",
    "agreement": "agreement/tokens.parquet",
    "longbench_v1": "longbench_v1/samples.parquet",
    "longbench_v2": "longbench_v2/samples.parquet",
}
"""By how a measure begins: the file that its numbers are from."""
TAIL_OF_ONE = ("pop_native", "swiftkv_released")
NO_MEASURE, OTHER_TASKS, NO_ARM, NO_ITEMS = "no measure", "other tasks", "no arm", "no items"
REASONS = {
    NO_MEASURE: "nothing that these results hold corresponds to it",
    OTHER_TASKS: "the experiment ran other tasks",
    NO_ARM: "the experiment has no such arm there",
    NO_ITEMS: "none of its samples or documents counts",
}


@dataclass(frozen=True)
class OurCell:
    """What stands where the paper has ``metric`` of ``arm``: a number, or a ``status`` of ``REASONS``.

    The number is a mean, or the mean difference to ``against``, in points or nats; status is then that of its
    interval. split and tail are our own.
    """

    experiment: str
    model: str
    split: int | None
    tail: int | None
    arm: str
    baseline: str
    metric: str
    measure: str
    against: str
    n: int
    value: float | None
    ci_low: float | None
    ci_high: float | None
    status: str
    ledger_entry: str


class Experiment:
    """One results folder, open for reading."""

    def __init__(self, folder: Path) -> None:
        """folder: holds ``experiment.json``. Raises ResultsError when it is not a results folder."""
        self.measures = Measures(folder)
        self.folder = folder
        self.settings = self.measures.settings
        self.suites: Mapping[str, Any] = read_json(folder / "experiment.json")["experiment"].get("suites", {})
        self._stats: dict[tuple[str, str, str | None, int], Stat] = {}

    @cached_property
    def arms(self) -> dict[tuple[str, str], list[int | None]]:
        """Splits at which each arm was measured, by measure and arm."""
        rows = self.measures.query("SELECT DISTINCT metric, arm, split FROM measure ORDER BY ALL NULLS FIRST")
        found: dict[tuple[str, str], list[int | None]] = {}
        for metric, name, split in rows:
            found.setdefault((metric, name), []).append(split)
        return found

    def entry(self, measure: str) -> str:
        """The ledger entry under which the file behind ``measure`` was written, as ``branch/number``."""
        name = next(file for start, file in MEASURED_IN.items() if measure.startswith(start))
        marks = pq.read_schema(self.folder / name).metadata or {}
        return str(marks.get(b"ledger_entry", b"").decode())

    def describe(self) -> str:
        """Model, lengths and counts, and the ledger entries, in one line."""
        s, ruler, texts = self.settings, self.suites.get("ruler") or {}, self.suites.get("documents") or {}
        parts = [f"{s.model}, {s.layers} layers, split {s.split}, tail {s.tail}"]
        if ruler:
            lengths = ", ".join(f"{length:,}" for length in ruler["lengths"])
            parts.append(
                f"{ruler['source']} RULER, {len(ruler['tasks'])} tasks of {ruler['samples']} at {lengths} tokens, "
                f"ledger {self.entry('ruler_all')}"
            )
        if texts:
            count = len(texts["domains"]) * texts["per_domain"]
            parts.append(f"{count} documents of {texts['prompt_tokens']:,} tokens, ledger {self.entry('nll_all')}")
        return "; ".join(parts)

    def splits(self, names: Sequence[str]) -> list[tuple[int, str]]:
        """Every split at which one of the paper's arms ``names`` was measured, with the arm it belongs to, if one."""
        found: set[tuple[int, str]] = set()
        for (_, name), splits in self.arms.items():
            if name in {correspond.arm(one) for one in names}:
                own = name if name in OWN_SPLIT else ""
                found |= {(split, own) for split in splits if split is not None}
        return sorted(found)

    def cell(self, name: str, baseline: str, metric: str, split: int | None = None) -> OurCell:
        """Our counterpart of the paper's ``metric`` of arm ``name``, or of its difference to ``baseline``.

        split: None for the experiment's own.
        """
        ours, match = correspond.arm(name), correspond.match(metric)
        base = correspond.arm(baseline) if baseline else "exact" if match and match.against_exact else None
        at = self.settings.split if split is None else split
        status = self._why_not(match, ours, base, at)
        found = MISSING if status or match is None else self._statistic(match.metric, ours, base, at)
        own = None if ours == "exact" else self._own_split(ours, at) if ours in OWN_SPLIT else at
        exact_or_longer = ours == "exact" or ours.endswith("longer_tail")
        return OurCell(
            experiment=self.settings.experiment, model=self.settings.model, split=own,
            tail=None if exact_or_longer else 1 if ours in TAIL_OF_ONE else self.settings.tail,
            arm=name, baseline=baseline, metric=metric, measure=match.metric if match else "", against=base or "",
            n=found.n, value=found.estimate, ci_low=found.ci_low, ci_high=found.ci_high,
            status=status or (NO_ITEMS if found.estimate is None else found.status),
            ledger_entry="" if found.estimate is None or match is None else self.entry(match.metric),
        )  # fmt: skip

    def _why_not(self, match: Match | None, arm: str, base: str | None, split: int) -> str:
        """Why there is no number, as a key of ``REASONS``; empty when there may be one."""
        if match is None or not any(metric == match.metric for metric, _ in self.arms):
            return NO_MEASURE
        if match.tasks is not None and match.tasks != set((self.suites.get("ruler") or {}).get("tasks", ())):
            return OTHER_TASKS
        for name in (arm, base or arm):
            splits = self.arms.get((match.metric, name), [])
            if not splits or (name not in OWN_SPLIT and split not in splits):
                return NO_ARM
        return ""

    def _statistic(self, metric: str, arm: str, baseline: str | None, split: int) -> Stat:
        key = (metric, arm, baseline, split)
        if key not in self._stats:
            self._stats[key] = self.measures.statistic(metric, arm, baseline, split)
        return self._stats[key]

    def _own_split(self, arm: str, otherwise: int) -> int | None:
        found = next((splits for (_, name), splits in self.arms.items() if name == arm), [otherwise])
        return found[0]


def open_results(folders: Sequence[Path]) -> list[Experiment]:
    """Every experiment in the folders: one of results, or one that holds such folders.

    Folders below them without an ``experiment.json`` are no experiments and are passed over; ResultsError when a
    given folder holds none at all.
    """
    found = []
    for folder in folders:
        inside = [folder] if (folder / "experiment.json").is_file() else sorted(folder.glob("*/"))
        ours = [one for one in inside if (one / "experiment.json").is_file()]
        if not ours:
            raise ResultsError(f"{folder} holds no results (no experiment.json); expected a results folder or several")
        found += [Experiment(one) for one in ours]
    return found


def our_cells(experiment: Experiment, cells: Sequence[Cell], layout: str) -> list[OurCell]:
    """Our side of a table: the same arms and measures, at our split, or at all our splits where it lists splits."""
    columns = dict.fromkeys((cell.arm, cell.baseline, cell.metric) for cell in cells)
    if layout != "splits":
        return [experiment.cell(*column) for column in columns]
    names = [name for name, _, _ in columns]
    return [
        experiment.cell(name, baseline, metric, split)
        for split, own in experiment.splits(names)
        for name, baseline, metric in columns
        if own == (correspond.arm(name) if correspond.arm(name) in OWN_SPLIT else "")
    ]
