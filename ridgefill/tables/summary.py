"""The first three sentences of a report, made from its verdicts: how many, what held, what did not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from ridgefill.tables.grid import Cell
from ridgefill.tables.verdicts import Outcome, leaves

SHOWN = 2
"""At most so many predictions are told in one sentence; the rest are counted."""


def summary_sentences(outcomes: Sequence[Outcome], cells: Mapping[str, Cell], span: Any) -> list[Markup]:
    """Three sentences; empty without predictions. ``span`` prints a cell."""
    if not outcomes:
        return []
    return [_counts(cells, span), _held(outcomes, cells, span), _fell(outcomes, cells, span)]


def _counts(cells: Mapping[str, Cell], span: Any) -> Markup:
    numbers = {name: cells[f"summary.{name}"] for name in ("predictions", "supported", "refuted", "undecided")}
    total = numbers["predictions"].value
    words = {name: span(cell) for name, cell in numbers.items()}
    plural = "prediction" if total == 1 else "predictions"
    were = "was" if numbers["supported"].value == 1 else "were"
    return Markup(
        f"Of {words['predictions']} {plural} registered before the run, {words['supported']} {were} supported, "
        f"{words['refuted']} refuted and {words['undecided']} left undecided."
    )


def _held(outcomes: Sequence[Outcome], cells: Mapping[str, Cell], span: Any) -> Markup:
    found = [one for one in outcomes if one.verdict == "supported"]
    if not found:
        return Markup("None was supported.")
    return Markup("Supported was ") + _told(found[0], cells, span) + Markup(".")


def _fell(outcomes: Sequence[Outcome], cells: Mapping[str, Cell], span: Any) -> Markup:
    """What was refuted or left undecided; where nothing was, the next supported prediction."""
    parts = []
    for verdict in ("refuted", "undecided"):
        found = [one for one in outcomes if one.verdict == verdict]
        if found:
            told = Markup("; ").join(_told(one, cells, span) for one in found[:SHOWN])
            be = "was" if len(found) == 1 else "were"
            parts.append(Markup(f"{verdict} {be} ") + told + Markup(_others(len(found) - SHOWN)))
    if parts:
        text = Markup("; ").join(parts) + Markup(".")
        return Markup(text[:1].upper() + text[1:])
    if len(outcomes) == 1:
        return Markup("It was the only one.")
    return Markup("So was ") + _told(outcomes[1], cells, span) + Markup(".")


def _others(count: int) -> str:
    return "" if count <= 0 else f", and {count} more below"


def _told(outcome: Outcome, cells: Mapping[str, Cell], span: Any) -> Markup:
    """A prediction in its own words, a link to its card, and the numbers that decided it."""
    observed = [cells[f"verdicts.{outcome.id}.{index}.observed"] for index, _ in enumerate(leaves(outcome.rule))]
    numbers = Markup(", ").join(span(cell) for cell in observed)
    link = Markup('<a href="#verdict-{0}">{0}</a>').format(outcome.id)
    says = escape(outcome.says.rstrip("."))
    return link + Markup(", \u201c") + says + Markup("\u201d (observed ") + numbers + Markup(")")
