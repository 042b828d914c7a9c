"""The self-contained HTML report: one file, readable on a phone, in light and dark."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from ridgefill.errors import ResultsError
from ridgefill.results import files_of, read_json
from ridgefill.tables.beside import beside
from ridgefill.tables.facts import facts_json
from ridgefill.tables.figures import Picture
from ridgefill.tables.folder import Folder, arm_label
from ridgefill.tables.grid import Cell, Entry, Table
from ridgefill.tables.history import History
from ridgefill.tables.notes import conditions, load_notes
from ridgefill.tables.style import colour
from ridgefill.tables.summary import summary_sentences
from ridgefill.tables.verdicts import Outcome, condition_words, leaves

HERE = Path(__file__).parent
TEMPLATE = "report.html.j2"
# Named here because a job's code is hashed with the files that its modules name.
PARTS = ("report_macros.html.j2", "report.css", "report.js")
# The page's parts in order: anchor, name in the list of contents, and the table or figure without which it is left out.
SECTIONS = (
    ("main", "Main table", "main"),
    ("pareto", "Quality against work", "pareto"),
    ("verdicts", "Verdicts", "main"),
    ("contrasts", "Comparisons", "contrasts"),
    ("splices", "Splices", "splices"),
    ("suites", "Following exact", "suites"),
    ("longbench", "LongBench", "longbench_v1 longbench_v2"),
    ("split", "Where to split", "split_curve"),
    ("tasks", "Tasks and lengths", "tasks"),
    ("lam", "The fit", "lam"),
    ("widths", "Intervals", "widths"),
    ("cost", "Cost and time", "cost"),
    ("paper", "Beside the paper", "beside"),
    ("ledger", "Ledger timeline", "history"),
    ("methods", "Methods", "main"),
    ("deviations", "Deviations", "main"),
    ("provenance", "Provenance", "main"),
)
# Arms of the opening picture, in order.
GLANCE = ("exact", "ridgefill", "identity", "no_fill")


def render_report(
    folder: Folder,
    tables: Mapping[str, Table],
    drawn: Sequence[Picture],
    outcomes: Sequence[Outcome],
    notes: Path | None,
    history: History | None = None,
) -> str:
    """The report as HTML text. ``notes`` is read as by :func:`load_notes`, ``history`` is the ledger's."""
    cells = {cell.id: cell for table in tables.values() for cell in table.cells()}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _span
    compared = beside(cells)
    environment.filters["spans"] = _row_spans
    return environment.get_template(TEMPLATE).render(
        settings=folder.settings,
        tables=tables,
        cells=cells,
        has=lambda *ids: all(i in cells and cells[i].value is not None for i in ids),
        figures={p.name: {"title": p.title, "caption": p.caption, "svg": Markup(p.wide + p.narrow)} for p in drawn},
        glance=_glance(cells),
        outcomes=[_outcome(outcome, cells) for outcome in outcomes],
        sentences=summary_sentences(outcomes, cells, _span),
        beside=compared,
        history=history,
        sections=_sections(tables, {p.name for p in drawn}, compared is not None, history is not None),
        notes=load_notes(notes, conditions(read_json(folder.root / "experiment.json"), files_of(folder.root))),
        provenance=_provenance(folder),
        facts=Markup(facts_json(cells, folder.settings.experiment, compared.published if compared else ())),
        css=Markup((HERE / "report.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "report.js").read_text(encoding="utf-8")),
    )


def _span(target: Cell | Entry) -> Markup:
    """A number with its id, or an entry with its interval on a second line."""
    if isinstance(target, Cell):
        return Markup('<span class="n" data-cell="{}">{}</span>').format(target.id, target.text)
    if target.cell is None:
        return escape(target.label)
    number = escape(target.prefix) + _span(target.cell) + escape(target.suffix)
    if target.low is None or target.high is None:
        return number
    return number + Markup(' <span class="ci">[{}, {}]</span>').format(_span(target.low), _span(target.high))


def _sections(
    tables: Mapping[str, Table], figures: Collection[str], compared: bool, dated: bool
) -> list[tuple[str, str]]:
    """Anchors and names of the parts that this report has."""
    there = {*tables, *figures} | ({"beside"} if compared else set()) | ({"history"} if dated else set())
    return [(anchor, name) for anchor, name, needs in SECTIONS if there.intersection(needs.split())]


def _row_spans(table: Table) -> list[int]:
    """Rows that the first label of each row covers; 0 where the row above covers it.

    Only tables that start with two label columns repeat their first one.
    """
    spans = [1] * len(table.rows)
    if len(table.columns) < 2 or not table.columns[1].label:
        return spans
    first = 0
    for index in range(1, len(table.rows)):
        if table.rows[index][0].label == table.rows[first][0].label:
            spans[first], spans[index] = spans[first] + 1, 0
        else:
            first = index
    return spans


def _glance(cells: Mapping[str, Cell]) -> list[dict[str, Any]]:
    """Bars of the opening picture: filled-region points of the arms a reader asks about first."""
    bars = []
    for arm in GLANCE:
        found = [cells.get(f"main.{arm}.ruler_filled{end}") for end in ("", ".low", ".high")]
        numbers = [float(cell.value) for cell in found if cell is not None and cell.value is not None]
        if len(numbers) < len(found):
            continue
        value, low, high = numbers
        bars.append(
            {
                "label": arm_label(arm),
                "cell": found[0],
                "value": value,
                "low": low,
                "high": high,
                "colour": colour(arm),
            }
        )
    return bars


def _outcome(outcome: Outcome, cells: Mapping[str, Cell]) -> dict[str, Any]:
    conditions = [
        {
            "words": condition_words(leaf),
            "observed": cells[f"verdicts.{outcome.id}.{index}.observed"],
            "n": cells[f"verdicts.{outcome.id}.{index}.n"],
        }
        for index, leaf in enumerate(leaves(outcome.rule))
    ]
    return {
        "id": outcome.id,
        "says": outcome.says,
        "reason": outcome.reason,
        "kind": outcome.verdict,
        "joined": "any of" if "any" in outcome.rule else "all of" if "all" in outcome.rule else "",
        "verdict": cells[f"verdicts.{outcome.id}.verdict"],
        "conditions": conditions,
    }


def _provenance(folder: Folder) -> dict[str, Any]:
    path = folder.root / "provenance.json"
    found = read_json(path)
    try:
        return {
            "registration": {key: str(found["registration"][key]) for key in ("branch", "seq", "leaf")},
            "runs": {str(name): dict(run) for name, run in found["runs"].items()},
            "git_commit": str(found["git_commit"]),
            "environment": {str(k): str(v) for k, v in found.get("environment", {}).items()},
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path}: {error!r} is missing or malformed; run the report step again") from error
