"""The rows that a basis picks: from the table's own query, or the measurements that the query sums up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ridgefill.errors import ResultsError
from ridgefill.measures import MEASURE_SQL, Measures, item_value
from ridgefill.results import read_json
from ridgefill.tables.folder import SQL_DIR
from ridgefill.tracing.basis import NO_ROWS, Basis

Row = dict[str, Any]

_HERE = "(split = $split OR list_contains($own, arm)) AND arm = $arm"
_SAMPLE = "task || '/' || length || '/' || lpad(sample::VARCHAR, 5, '0')"
INPUTS: Mapping[str, str] = {
    "work_ruler": f"SELECT {_SAMPLE} AS item, prompt_sha256 AS prompt, prompt_tokens, filled_rows, exact_rows, macs, "
    f"exact_macs FROM ruler_samples WHERE {_HERE} ORDER BY item",
    "work_documents": "SELECT document AS item, prompt_tokens, filled_rows, exact_rows, macs, exact_macs "
    f"FROM documents WHERE {_HERE} ORDER BY item",
    "timings": "SELECT item, lower_seconds, late_seconds, exact_seconds "
    f"FROM timings WHERE suite = $suite AND exact_seconds > 0 AND {_HERE} ORDER BY item",
    "spent_ruler": "SELECT item, tail, len(selected) AS selected, selection_macs, correction_macs, macs, exact_macs, "
    f"matched_to, target_macs FROM ruler_arms WHERE {_HERE} ORDER BY item",
    "spent_documents": "SELECT item, tail, len(selected) AS selected, selection_macs, correction_macs, macs, "
    f"exact_macs, matched_to, target_macs FROM documents_arms WHERE {_HERE} ORDER BY item",
    "fit": "SELECT layer, lam, alpha, condition, residual_share FROM fit_layers WHERE split = $at ORDER BY layer",
    "lam": "SELECT layer, lam, component, cosine, rows FROM lam_curve "
    "WHERE split = $at AND component = $component ORDER BY layer",
}
_PARTS = ("parts", "parts_1", "parts_2")
_SIDES = ("own", "other", "exact")
_KINDS = ("difficulty", "length", "domain")


def query_path(name: str) -> Path:
    """The file of a query named in ``cells.json``; ResultsError when this ridgefill has none such."""
    path = next((path for path in (SQL_DIR / name, MEASURE_SQL.with_name(name)) if path.is_file()), None)
    if path is None or path.parent.joinpath(Path(name).name) != path:
        raise ResultsError(f"this ridgefill has no query {name!r}; use the one that made the report")
    return path


def rows_of(measures: Measures, basis: Basis) -> list[Row]:
    """The rows behind a cell, in a fixed order: items with the values of each side, or measurements as stored."""
    if basis.rows in INPUTS:
        return _inputs(measures, basis)
    if basis.rows == "outcomes":
        return _outcomes(measures.root, basis)
    if basis.rows == NO_ROWS:
        return []
    if basis.rows == "config":
        return _configured(measures)
    return [_with_values(row) for row in _picked(_query(measures, basis), basis.where)]


def runnable(measures: Measures, basis: Basis) -> str:
    """The query with its parameters filled in and narrowed to the rows of the cell: one statement to run by hand.

    Empty for a verdict, which no query gives but the rules of the ledger.
    """
    if basis.rows == "outcomes":
        return ""
    text = query_path(basis.query).read_text("utf-8").strip().removesuffix(";")
    for name in sorted(basis.parameters, key=len, reverse=True):
        text = text.replace(f"${name}", _literal(basis.parameters[name]))
    where = {key: value for key, value in basis.where.items() if key not in ("group", "lam")}
    tests = [f"{key} = {_literal(value)}" for key, value in where.items()]
    if "group" in basis.where:
        tests.append(_group_test(str(basis.where["group"])))
    if "lam" in basis.where:
        rows = _picked(_query(measures, basis), basis.where)
        tests += [f"lam = {row['lam']!r}::DOUBLE" for row in rows[:1]]
    return f"SELECT *\nFROM (\n{text}\n){' WHERE ' + ' AND '.join(tests) if tests else ''}"


def fetch(measures: Measures, sql: str, parameters: Mapping[str, Any]) -> list[Row]:
    """Rows of a SELECT as dictionaries; ``parameters`` that the SQL does not name are left out."""
    used = {key: value for key, value in parameters.items() if f"${key}" in sql}
    cursor = measures.connection.execute(sql, used)
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _query(measures: Measures, basis: Basis) -> list[Row]:
    text = query_path(basis.query).read_text("utf-8").strip().removesuffix(";")
    # Only a query inside another gets different names for columns that are called the same.
    return fetch(measures, f"SELECT * FROM (\n{text}\n)", basis.parameters)


def _picked(rows: Sequence[Row], where: Mapping[str, Any]) -> list[Row]:
    return [row for row in rows if all(_is(row, key, value) for key, value in where.items())]


def _is(row: Row, key: str, value: Any) -> bool:
    if key == "group":
        kind, _, name = str(value).partition(".")
        groups = row["stratum"].split("@", 2)
        return bool(groups[_KINDS.index(kind)] == name if name and len(groups) == 3 else row["stratum"] == value)
    # A lam is known by how its id prints it.
    return bool(f"{row[key]:g}" == value if key == "lam" else row[key] == value)


def _with_values(row: Row) -> Row:
    """An item's row with the value of each side: ``own``, ``other`` and ``exact``, None where it has none."""
    there = [name for name in _PARTS if name in row]
    if "document" in row and "kl" in row:
        return {**row, "item": row["document"]}
    values = {side: item_value(row[name]) for side, name in zip(_SIDES, there, strict=False)}
    counted = max((len(row[name] or ()) for name in there), default=0)
    return {**row, **values, **({"tokens": counted} if counted > 1 else {})}


def _inputs(measures: Measures, basis: Basis) -> list[Row]:
    more = {"arm": basis.arm, "at": basis.split, **basis.where}
    rows = fetch(measures, INPUTS[basis.rows], {**basis.parameters, **more})
    return _picked(rows, {"lam": basis.where["lam"]}) if "lam" in basis.where else rows


def _outcomes(root: Path, basis: Basis) -> list[Row]:
    """Every prediction with its verdict, or the conditions of the one that is asked for."""
    verdicts = read_json(root / "verdicts.json")
    if "id" not in basis.parameters:
        return [{"item": one["id"], "verdict": one["verdict"], "says": one.get("says", "")} for one in verdicts]
    found = [one for one in verdicts if one["id"] == basis.parameters["id"]]
    return [{"item": one["id"], "verdict": one["verdict"], "reason": one.get("reason", "")} for one in found]


def _configured(measures: Measures) -> list[Row]:
    given = measures.settings
    return [{"layers": given.layers, "split": given.split, "tail": given.tail, "resamples": given.resamples}]


def leaves_of(root: Path) -> dict[str, Mapping[str, Any]]:
    """The single comparisons of the folder's claim, by ``verdicts.ID.NUMBER``; empty without a claim."""
    from ridgefill.tables.verdicts import leaves

    path = root / "claim.yaml"
    if not path.is_file():
        return {}
    try:
        predictions = yaml.safe_load(path.read_text("utf-8"))["predictions"] or []
        return {
            f"verdicts.{one['id']}.{number}": leaf
            for one in predictions
            for number, leaf in enumerate(leaves(one["rule"]))
        }
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(f"{path} is not a readable claim ({error!r}); copy it from workflow/claims") from error


def _group_test(group: str) -> str:
    kind, _, name = group.partition(".")
    if kind in _KINDS and name:
        return f"string_split(stratum, '@')[{_KINDS.index(kind) + 1}] = {_literal(name)}"
    return f"stratum = {_literal(group)}"


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(one) for one in value) + "]"
    return str(value) if isinstance(value, int | float) else "'" + str(value).replace("'", "''") + "'"
