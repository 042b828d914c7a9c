"""What the page knows of each number beyond its text: value, unit, size, and where it came from, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ridgefill.tables.grid import Cell

UNITS = {
    "points": "points of 100",
    "points_difference": "points of 100",
    "points_fine": "points of 100",
    "nats": "nats per token",
    "nats_difference": "nats per token",
    "nats_fine": "nats per token",
    "percent": "as a share; printed in %",
    "percent_difference": "as a share; printed in %",
    "percent_fine": "as a share; printed in %",
    "factor": "times",
    "giga": "multiply-accumulates; printed in thousand millions",
    "seconds": "seconds",
}
STATUSES = {
    "constant": "every stratum is constant or a single item, so the interval has no width",
    "incomplete": "some items have no value and are left out",
    "too_few": "too few items for an interval",
    "missing": "not measured",
    "undefined": "not defined for these items",
}


def facts_json(cells: Mapping[str, Cell], experiment: str, published: Sequence[Mapping[str, Any]]) -> str:
    """Facts of all cells and of the paper's numbers, as JSON that is safe inside a script element.

    A cell is [value, n, place of its origin, place of its unit, place of its status or nothing].
    """
    origins = list(dict.fromkeys((c.origin.query, c.origin.run, c.origin.ledger_entry) for c in cells.values()))
    places = {origin: place for place, origin in enumerate(origins)}
    units = list(dict.fromkeys(UNITS.get(cell.kind, "") for cell in cells.values()))
    statuses = list(dict.fromkeys(cell.status for cell in cells.values()))
    found: dict[str, list[Any]] = {}
    for cell in cells.values():
        origin = places[cell.origin.query, cell.origin.run, cell.origin.ledger_entry]
        found[cell.id] = [
            cell.value,
            cell.n,
            origin,
            units.index(UNITS.get(cell.kind, "")),
            statuses.index(cell.status),
        ]
    document = {
        "experiment": experiment,
        "origins": origins,
        "units": units,
        "statuses": [STATUSES.get(status, "" if status == "ok" else status) for status in statuses],
        "cells": found,
        "published": list(published),
    }
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
