"""One results folder opened for tables: its measures, where each number comes from, and cell makers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ridgefill.measures import OWN_SPLIT, Measures, Stat
from ridgefill.tables.grid import Cell, Entry, Origin

SQL_DIR = Path(__file__).parent

ARM_LABELS = {
    "exact": "exact",
    "no_fill": "no fill",
    "identity": "identity fill",
    "ridgefill": "RidgeFill",
    "pop_native": "POP at its own split",
    "identity_rows": "identity fill + chosen rows",
    "identity_random_rows": "identity fill + random rows",
    "ridgefill_rows": "RidgeFill + chosen rows",
    "ridgefill_random_rows": "RidgeFill + random rows",
    "ridgefill_longer_tail": "RidgeFill, longer tail",
    "no_fill_longer_tail": "no fill, longer tail",
}
METRIC_LABELS = {
    "ruler_filled": "RULER, filled region",
    "ruler_all": "RULER, all samples",
    "nll_all": "loss, all tokens",
    "nll_novel": "loss, novel tokens",
    "nll_key": "loss, key tokens",
}
_MARKS = {"constant": "\u2020", "incomplete": "\u2021"}


def arm_label(arm: str) -> str:
    """How an arm is called in print; an arm this version has no words for keeps its name."""
    return ARM_LABELS.get(arm, arm)


def arm_order(arm: str) -> tuple[int, str]:
    """Sort key: the order of the main table, then by name."""
    names = list(ARM_LABELS)
    return (names.index(arm) if arm in names else len(names), arm)


def metric_kind(metric: str, difference: bool) -> str:
    """Number format of a metric, or of a difference of two."""
    return ("points" if metric.startswith("ruler") else "nats") + ("_difference" if difference else "")


class Folder:
    """A results folder with its measures; ``origin`` tells what a table's numbers were made from."""

    def __init__(self, results_dir: Path) -> None:
        self.root = Path(results_dir)
        self.measures = Measures(self.root)
        self.settings = self.measures.settings
        self._entries: dict[str, str] = {}

    def query(self, name: str) -> list[tuple[Any, ...]]:
        """Rows of ``<name>.sql`` at the primary split."""
        sql = (SQL_DIR / f"{name}.sql").read_text(encoding="utf-8")
        return self.measures.query(sql, split=self.settings.split, own=list(OWN_SPLIT))

    def origin(self, query: str, file: str) -> Origin:
        """``query`` is an SQL file's stem, ``file`` the Parquet file whose run and ledger entry are cited."""
        if file not in self._entries:
            metadata = pq.read_schema(self.root / file).metadata
            self._entries[file] = metadata[b"ledger_entry"].decode()
        return Origin(f"{query}.sql", file.split("/", maxsplit=1)[0], self._entries[file])

    def metric_origin(self, query: str, metric: str) -> Origin:
        """Origin of a metric's numbers."""
        ruler = metric.startswith("ruler")
        return self.origin(query, "ruler/samples.parquet" if ruler else "documents/tokens.parquet")


def stat_entry(identity: str, stat: Stat, kind: str, origin: Origin, bar: float | None = None) -> Entry:
    """A mean with its interval as three cells: ``identity``, ``identity.low`` and ``identity.high``."""

    def cell(suffix: str, value: float | None) -> Cell:
        return Cell(identity + suffix, value, kind, stat.n, origin, stat.status)

    if stat.estimate is None:
        return Entry(cell=cell("", None))
    return Entry(
        cell=cell("", stat.estimate), low=cell(".low", stat.ci_low), high=cell(".high", stat.ci_high),
        suffix=_MARKS.get(stat.status, ""), bar=bar,
    )  # fmt: skip


def number_entry(
    identity: str, value: float | int | str | None, kind: str, n: int, origin: Origin, **look: Any
) -> Entry:
    """A single number as an entry; ``look`` sets the entry's prefix, suffix, bar or strong."""
    return Entry(cell=Cell(identity, value, kind, n, origin, "missing" if value is None else "ok"), **look)
