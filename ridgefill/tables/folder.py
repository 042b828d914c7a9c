"""One results folder opened for tables: its measures, where each number comes from, and cell makers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ridgefill.measures import OWN_SPLIT, Measures, Stat, in_points
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
    "identity_longer_tail": "identity fill, longer tail",
    "identity_question_blind_rows": "identity fill + question-blind rows",
    "ridgefill_question_blind_rows": "RidgeFill + question-blind rows",
    "identity_rows_question_first": "identity fill + chosen rows, question first",
    "ridgefill_rows_question_first": "RidgeFill + chosen rows, question first",
    "ridgefill_digits": "RidgeFill + digit tokens",
    "ridgefill_special": "RidgeFill + special tokens",
    "ridgefill_protected": "RidgeFill + protected tokens",
    "ridgefill_lexical": "RidgeFill + lexical net",
    "ridgefill_probe": "RidgeFill + probed rows",
    "ridgefill_probe_random": "RidgeFill + random rows, as many as probed",
    "kva": "KVA heads",
    "swiftkv_tail": "SwiftKV, exact tail",
    "swiftkv_released": "SwiftKV as released",
    "splice_exact_keys": "RidgeFill + exact keys",
    "splice_exact_values": "RidgeFill + exact values",
    "splice_exact_keys_values": "RidgeFill + exact keys and values",
    "splice_exact_states": "RidgeFill + exact states",
    "splice_exact_all": "RidgeFill + exact keys, values and states",
    "scale_keys_tail": "RidgeFill + key scale (tail)",
    "scale_values_tail": "RidgeFill + value scale (tail)",
    "ridgefill_state_correction": "RidgeFill + state correction",
}
METRIC_LABELS = {
    "ruler_filled": "RULER, filled region",
    "ruler_all": "RULER, all samples",
    "nll_all": "loss, all tokens",
    "nll_novel": "loss, novel tokens",
    "nll_key": "loss, key tokens",
    "agreement_top1": "agreement with exact",
    "agreement_kl": "KL from exact",
    "turn2": "second question, filled region",
    "served_ceiling": "served: share of the ceiling by work",
    "served_first": "served, too short to fill: first token",
    "served_decode": "served, too short to fill: decoding",
    "served_same": "served, too short to fill: the stock server's tokens",
    "longbench_v1": "LongBench v1",
    "longbench_v2": "LongBench v2",
}
# By how a metric begins; others are of the documents' tokens.
METRIC_FILES = {
    "ruler": "ruler/samples.parquet",
    "agreement": "agreement/tokens.parquet",
    "turn": "turns/samples.parquet",
    "served_ceiling": "served/requests.parquet",
    "served": "served/pairs.parquet",
    "longbench_v1": "longbench_v1/samples.parquet",
    "longbench_v2": "longbench_v2/samples.parquet",
}
MARKS = {"constant": "\u2020", "incomplete": "\u2021", "too_few": "\u00a7"}


def arm_label(arm: str) -> str:
    """How an arm is called in print; an arm this version has no words for keeps its name."""
    return ARM_LABELS.get(arm, arm)


def arm_order(arm: str) -> tuple[int, str]:
    """Sort key: the order of the main table, then by name."""
    names = list(ARM_LABELS)
    return (names.index(arm) if arm in names else len(names), arm)


def metric_kind(metric: str, difference: bool) -> str:
    """Number format of a metric, or of a difference of two."""
    return ("points" if in_points(metric) else "nats") + ("_difference" if difference else "")


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
        places = (place for prefix, place in METRIC_FILES.items() if metric.startswith(prefix))
        return self.origin(query, next(places, "documents/tokens.parquet"))


def stat_entry(identity: str, stat: Stat, kind: str, origin: Origin, bar: float | None = None) -> Entry:
    """A mean with its interval as three cells: ``identity``, ``identity.low`` and ``identity.high``."""

    def cell(suffix: str, value: float | None) -> Cell:
        return Cell(identity + suffix, value, kind, stat.n, origin, stat.status)

    if stat.estimate is None:
        return Entry(cell=cell("", None))
    return Entry(
        cell=cell("", stat.estimate), low=cell(".low", stat.ci_low), high=cell(".high", stat.ci_high),
        suffix=MARKS.get(stat.status, ""), bar=bar,
    )  # fmt: skip


def number_entry(
    identity: str, value: float | int | str | None, kind: str, n: int, origin: Origin, **look: Any
) -> Entry:
    """A single number as an entry; ``look`` sets the entry's prefix, suffix, bar or strong."""
    return Entry(cell=Cell(identity, value, kind, n, origin, "missing" if value is None else "ok"), **look)
