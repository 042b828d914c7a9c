"""The self-contained HTML report: one file, readable on a phone, in light and dark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import yaml
from markupsafe import Markup, escape

from ridgefill.errors import ResultsError
from ridgefill.results import read_json
from ridgefill.tables.figures import Picture
from ridgefill.tables.folder import Folder, arm_label
from ridgefill.tables.grid import Cell, Entry, Table
from ridgefill.tables.style import colour
from ridgefill.tables.verdicts import Outcome, condition_words, leaves

HERE = Path(__file__).parent
NOTE_KEYS = ("methods", "deviations", "limits")
# Arms of the opening picture, in order.
GLANCE = ("exact", "ridgefill", "identity", "no_fill")


def render_report(
    folder: Folder,
    tables: Mapping[str, Table],
    drawn: Sequence[Picture],
    outcomes: Sequence[Outcome],
    notes: Path | None,
) -> str:
    """The report as HTML text. ``notes`` is read as by :func:`load_notes`."""
    cells = {cell.id: cell for table in tables.values() for cell in table.cells()}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = _span
    environment.filters["spans"] = _row_spans
    return environment.get_template("report.html.j2").render(
        settings=folder.settings,
        tables=tables,
        cells=cells,
        has=lambda *ids: all(i in cells and cells[i].value is not None for i in ids),
        figures={p.name: {"title": p.title, "caption": p.caption, "svg": Markup(p.wide + p.narrow)} for p in drawn},
        glance=_glance(cells),
        outcomes=[_outcome(outcome, cells) for outcome in outcomes],
        notes=load_notes(notes),
        provenance=_provenance(folder),
        origins=Markup(_origins(cells)),
        css=Markup((HERE / "report.css").read_text(encoding="utf-8")),
        script=Markup((HERE / "report.js").read_text(encoding="utf-8")),
    )


def load_notes(path: Path | None) -> dict[str, list[Any]]:
    """Methods (title, text), deviations (what, why) and limits (sentences); empty without a file."""
    if path is None:
        return {key: [] for key in NOTE_KEYS}
    try:
        notes = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
        found = {key: list(notes.pop(key, None) or []) for key in NOTE_KEYS}
        shaped = all(set(m) == {"title", "text"} for m in found["methods"]) and all(
            set(d) == {"what", "why"} for d in found["deviations"]
        )
    except (OSError, yaml.YAMLError, AttributeError, TypeError) as error:
        raise ResultsError(f"{path} is not readable as notes ({error})") from error
    if notes or not shaped:
        raise ResultsError(f"{path}: expected methods (title, text), deviations (what, why), limits; nothing else")
    return found


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


def _origins(cells: Mapping[str, Cell]) -> str:
    """What the page shows when a number is tapped, as JSON that is safe inside a script element."""
    facts = {c.id: [c.origin.query, c.origin.run, c.origin.ledger_entry, c.n, c.status] for c in cells.values()}
    return json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")
