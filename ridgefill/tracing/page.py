"""A traced number as text of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

WIDTH = 100
FIRST = 5
_INDENT = 14
_UNITS = {
    "points": "points", "points_difference": "points", "points_fine": "points", "nats": "nats",
    "nats_difference": "nats", "nats_fine": "nats", "percent": "%", "percent_difference": "%", "percent_fine": "%",
    "factor": "x", "giga": "10^9 multiply-accumulates", "seconds": "s",
}  # fmt: skip
_LEFT_OUT = ("stratum", "item", "own", "other", "exact", "answer", "wanted", "baseline_answer", "split", "score",
             "prompt", "group", "arm", "metric", "place", "baseline", "kind")  # fmt: skip


def page(found: Mapping[str, Any], everything: bool = False) -> str:
    """The trace for a person; of the rows the first few unless ``everything``."""
    lines = [*_head(found), "", *_query(found), "", *_rows(found, everything), "", *_run(found), *_predictions(found)]
    if found["environment"]:
        lines += _wrap("environment", ", ".join(f"{key} {value}" for key, value in found["environment"].items()))
    return "\n".join([*lines, "", _last(found)])


def _head(found: Mapping[str, Any]) -> Iterator[str]:
    place, unit = found["place"], _UNITS.get(found["kind"], "")
    if place:
        yield f"{place['printed']}  {unit}".rstrip()
        yield from _wrap("printed in", f"table {place['table']}; row {place['row']}; column {place['column']}")
    else:
        yield f"{found['printed']}  {unit}".rstrip()
    yield from _wrap("cell", found["cell"])
    yield from _wrap("experiment", f"{found['experiment']}, in {found['folder']}")
    yield from _wrap("measures", f"{found['measures']}; n = {found['n']}, {found['status']}")
    interval = found["interval"]
    value = "not measured" if found["value"] is None else repr(found["value"]).strip("'")
    ends = f", interval from {interval['low']!r} to {interval['high']!r}" if interval else ""
    yield from _wrap("unrounded", f"{value}{ends}")
    for number, check in enumerate(found["checks"]):
        yield from _wrap("" if number else "checked", check["says"])


def _query(found: Mapping[str, Any]) -> list[str]:
    query = found["query"]
    if not query["sql"]:
        return _wrap("query", "none: the ledger's rules decide it from the claim and the measured tables")
    return [f"query         {query['path']}, for this cell:", "", *(f"    {line}" for line in query["sql"].split("\n"))]


def _rows(found: Mapping[str, Any], everything: bool) -> Iterator[str]:
    rows = found["rows"]
    shown = rows["each"] if everything else rows["each"][:FIRST]
    yield from _wrap("rows", f"{rows['count']} behind this number, in {rows['file']}")
    for row in shown:
        yield from _row(found, row)
    hidden = rows["count"] - len(shown)
    if hidden > 0:
        yield f"    and {hidden} more; --all prints them"


def _row(found: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """What the row is and has, then the answers, cut to a line each."""
    facts = [f"{key} {_short(value)}" for key, value in row.items() if key not in _LEFT_OUT and value is not None]
    values = []
    if "own" in row:
        values = [f"{found['arm']} {_short(row['own'])}"]
        against = "exact" if "exact" in row and found["baseline"] == "exact" else "other"
        if found["baseline"] and against in row:
            values.append(f"{found['baseline']} {_short(row[against])}")
            if None not in (row["own"], row[against]):
                values.append(f"difference {row['own'] - row[against]:+.6g}")
    if row.get("prompt"):
        facts.insert(0, f"prompt {row['prompt'][:16]}")
    yield from textwrap.wrap(
        "  ".join([str(row.get("item", "")), *values, *facts]).strip(), WIDTH, initial_indent="    ",
        subsequent_indent=" " * 8, break_on_hyphens=False,
    )  # fmt: skip
    if row.get("wanted"):
        yield _cut(f"        wanted  {', '.join(row['wanted'])}")
    for name, key in (("answer", "answer"), (f"{found['baseline']}", "baseline_answer")):
        if row.get(key) is not None:
            yield _cut(f"        {name}  {_one_line(row[key])}")


def _run(found: Mapping[str, Any]) -> Iterator[str]:
    run, registration = found["run"], found["registration"]
    yield from _wrap("run", f"{run['name']}: start #{run['start']}, result #{run['result']} of branch "
                     f"{run['branch'] or '?'}, {run['status']}")  # fmt: skip
    if run.get("started"):
        yield from _wrap("", f"from {run['started']} to {run['ended']}, seed {run['seed']}")
    dirty = " with uncommitted changes" if run.get("git_dirty") else ""
    yield from _wrap("", f"git commit {run['git_commit']}{dirty}")
    if found["ledger"]:
        yield from _wrap("", f"in full: ledger show {run['start']} --branch {run['branch']}")
    if registration:
        amended = ", amended" if registration.get("kind") == "amend" else ""
        words = f"#{registration['seq']}, {registration.get('grade') or 'no grade'}{amended}"
        if "time" in registration:
            words += f", {registration['time']}: {registration['title']}"
        yield from _wrap("registered", words)
    if found["ledger"]:
        sound = "links and hashes sound" if found["ledger"]["sound"] else "NOT sound"
        yield from _wrap("ledger", f"branch {found['ledger']['branch']}: {sound}")
    for number, item in enumerate(found["configs"]):
        yield from _wrap("" if number else "configured by", f"{item['sha256'][:16]}  {item['path']}: "
                         f"{_STATES[item['state']]}")  # fmt: skip
    resolved = found["resolved"]
    carried = "" if resolved["carried"] is None else f", what {resolved['carried_by']} carries"
    if resolved["carried"] not in (None, resolved["sha256"]):
        carried = f", but {resolved['carried_by']} carries {resolved['carried'][:16]}"
    yield from _wrap("resolved to", f"{resolved['sha256'][:16]}  {resolved['path']}{carried}")
    for number, item in enumerate(item for item in found["outputs"] if item["published"]):
        yield from _wrap("" if number else "wrote", f"{item['sha256'][:16]}  {item['path']}: {_STATES[item['state']]}")
    for problem in found["problems"]:
        yield from _wrap("problem", problem)


_STATES = {
    "same": "the same bytes today",
    "changed": "OTHER BYTES than the ledger records",
    "absent": "not here, so not compared",
}


def _predictions(found: Mapping[str, Any]) -> Iterator[str]:
    predictions: Sequence[Mapping[str, Any]] = found["predictions"]
    if not predictions:
        yield from _wrap("predictions", "none rests on this measure")
    for number, one in enumerate(sorted(predictions, key=lambda one: not one["this"])):
        other = "" if one["this"] else " (of other arms or splits)"
        yield from _wrap("" if number else "predictions", f"{one['id']}, {one['verdict']}{other}: {one['says']}")
        for words in one["when"]:
            yield from _wrap("", f"  {words}")


def _last(found: Mapping[str, Any]) -> str:
    if found["agrees"]:
        return "Everything that was looked at agrees."
    return "Something does not agree: see NOT, OTHER and but above."


def _wrap(name: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{name:<{_INDENT}}", subsequent_indent=" " * _INDENT, break_on_hyphens=False,
        break_long_words=False,
    )  # fmt: skip


def _short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _one_line(text: str) -> str:
    """An answer of a model as one line that cannot steer a terminal."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())


def _cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "\u2026"
