"""The paper's numbers with the report's own beside them, by measure and arm.

Ours are cells of the tables, never computed here; the paper's are printed as they were printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgefill.errors import ConfigError
from ridgefill.paper import correspond
from ridgefill.paper.correspond import Match
from ridgefill.paper.data import Cell as Published
from ridgefill.paper.data import Paper
from ridgefill.paper.files import find_root, load_paper
from ridgefill.tables.folder import METRIC_LABELS, arm_label, arm_order
from ridgefill.tables.grid import MINUS, Cell
from ridgefill.tables.points import ids

# The tables of every arm first: where a number stands in several, it is taken from these.
FIRST = ("Table A.1", "Table A.2", "Table A.3")
PLACES = {
    "turn2": "suites.{arm}.turn2",
    "agreement_top1": "suites.{arm}.agreement_top1",
    "agreement_kl": "suites.{arm}.agreement_kl",
    "longbench_v1": "longbench_v1.{arm}.average.score",
    "longbench_v2": "longbench_v2.{arm}.all.accuracy",
}


@dataclass(frozen=True)
class Row:
    """One arm: our number with its interval, and the paper's by model, as places in ``Beside.published``."""

    label: str
    strong: bool
    ours: tuple[Cell, ...]
    theirs: tuple[int | None, ...]


@dataclass(frozen=True)
class Block:
    """One measure: what it is called, how ours differs from the paper's, and its arms."""

    label: str
    differs: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Beside:
    """Everything that stands in both: models in the order of columns, blocks, and the paper's numbers."""

    models: tuple[str, ...]
    blocks: tuple[Block, ...]
    published: tuple[dict[str, Any], ...]
    differences: tuple[tuple[str, str], ...]
    absent: tuple[str, ...]


def beside(cells: Mapping[str, Cell]) -> Beside | None:
    """The comparison; None where the paper's numbers are not at hand or nothing corresponds."""
    try:
        paper = load_paper(find_root())
    except ConfigError:
        return None
    tasks = {task for _, task, _ in ids(cells, "tasks", 3)}
    found: dict[tuple[str, str], dict[str, Published]] = {}
    matches: dict[str, Match] = {}
    for theirs, match in _corresponding(paper, tasks):
        arm = correspond.arm(theirs.arm)
        if _ours(cells, match.metric, arm):
            matches.setdefault(match.metric, match)
            found.setdefault((match.metric, arm), {}).setdefault(theirs.model, theirs)
    models = tuple(dict.fromkeys(model for row in found.values() for model in row))
    published: list[dict[str, Any]] = []
    blocks = []
    for metric, match in matches.items():
        rows = []
        for arm in sorted({arm for one, arm in found if one == metric}, key=arm_order):
            there = found[metric, arm]
            places: list[int | None] = []
            for model in models:
                places.append(len(published) if model in there else None)
                published += [_facts(there[model])] if model in there else []
            rows.append(Row(arm_label(arm), arm == "ridgefill", _ours(cells, metric, arm), tuple(places)))
        task = metric.removeprefix("ruler_").removeprefix("niah_").replace("_", " ")
        label = METRIC_LABELS.get(metric, f"RULER, {task}")
        blocks.append(Block(label[:1].upper() + label[1:], match.differs, tuple(rows)))
    if not blocks:
        return None
    return Beside(models, tuple(blocks), tuple(published), _differences(blocks), _absent(paper, cells))


def _differences(blocks: Sequence[Block]) -> tuple[tuple[str, str], ...]:
    """Each way in which measures differ from the paper's, with the measures that do."""
    found: dict[str, list[str]] = {}
    for block in blocks:
        found.setdefault(block.differs, []).append(block.label)
    return tuple(("; ".join(labels), words) for words, labels in found.items())


def _corresponding(paper: Paper, tasks: set[str]) -> Iterator[tuple[Published, Match]]:
    """Published values of arms that have a counterpart here, those of ``FIRST`` before others."""
    tables = [cell for cell in paper.cells if cell.ref.startswith("Table ") and not cell.baseline]
    for cell in sorted(tables, key=lambda one: one.ref not in FIRST):
        match = correspond.match(cell.metric)
        if cell.value is not None and match is not None and (match.tasks is None or match.tasks == tasks):
            yield cell, match


def _ours(cells: Mapping[str, Cell], metric: str, arm: str) -> tuple[Cell, ...]:
    """Our cell with the ends of its interval; empty where there is none, or where lengths would have to be mixed."""
    identity = PLACES.get(metric, "main.{arm}.{metric}").format(arm=arm, metric=metric)
    if identity not in cells and metric.startswith("ruler_"):
        task = f"tasks.{arm}.{metric.removeprefix('ruler_')}."
        by_length = [one for one in cells if one.startswith(task) and one.count(".") == task.count(".")]
        identity = by_length[0] if len(by_length) == 1 else identity
    if identity not in cells or cells[identity].value is None:
        return ()
    return tuple(cells[one] for one in (identity, f"{identity}.low", f"{identity}.high") if one in cells)


def _facts(cell: Published) -> dict[str, Any]:
    """What the page shows of a published number."""
    signed = cell.metric.startswith("nll") and not str(cell.value).startswith("-")
    text = ("+" if signed and float(str(cell.value)) else "") + str(cell.value)
    facts = {
        "text": text.replace("-", MINUS), "unit": cell.unit, "ref": cell.ref, "model": cell.model,
        "metric": cell.metric, "arm": cell.arm, "split": cell.split, "tail": cell.tail, "n": cell.n,
        "low": cell.ci_low, "high": cell.ci_high, "note": cell.note,
    }  # fmt: skip
    return {key: value for key, value in facts.items() if value not in (None, "")}


def _absent(paper: Paper, cells: Mapping[str, Cell]) -> tuple[str, ...]:
    """Arms of the paper's reference study that the main table lacks, as it calls them here."""
    here = {arm for arm, _ in ids(cells, "main", 2)}
    theirs = {correspond.arm(cell.arm) for cell in paper.cells if cell.ref in (*FIRST, "Table 19", "Table 23")}
    return tuple(arm_label(arm) for arm in sorted(theirs - here, key=arm_order))
