"""Entries as text for people: the table of ``ledger log`` and the page of ``ledger show``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from unicodedata import category

from ledger.claims import claim_from
from ledger.entry import GRADED, Entry
from ledger.rules import rule_text


def printable(text: str, keep: str = "") -> str:
    """Text that cannot steer a terminal: control and format characters become a space."""
    hidden = ("Cc", "Cf", "Zl", "Zp")
    return "".join(sign if sign in keep or category(sign) not in hidden else " " for sign in text)


def summary(entry: Entry) -> str:
    """What an entry says, on one line."""
    return printable(_summary(entry))


def _summary(entry: Entry) -> str:
    return "(withheld)" if entry.body is None else _SAYS[entry.kind](entry.body)


def _fork(body: Mapping[str, Any]) -> str:
    origin, size, _ = body["checkpoint"].split("\n")[:3]
    return f"stands on {origin} at {size} entries"


def _start(body: Mapping[str, Any]) -> str:
    name = f"{body['experiment']} {body['run']} {body['label']}".rstrip()
    settings = "".join(f" {key}={value}" for key, value in sorted(body["overrides"].items()))
    return f"{name}{settings} (registered as #{body['registration']['seq']})"


def _result(body: Mapping[str, Any]) -> str:
    count = len(body["outputs"])
    outcome = f"{count} output{'s'[: count != 1]}" if body["status"] == "ok" else body["message"].split("\n")[0]
    return f"{body['status']} for #{body['start']['seq']}: {outcome}"


def _key(body: Mapping[str, Any]) -> str:
    name, number = [*body["public_key"].split("+"), ""][:2]
    old = body["replaces"]
    instead = "" if old is None else f" instead of {old}{', which was lost' if body['lost'] else ''}"
    return f"{body['role']} {name}+{number}{instead}"


_SAYS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "genesis": lambda body: str(body["title"] or "a new ledger"),
    "fork": _fork,
    "register": lambda body: f"{body['experiment']}: {body['claim']['title']}",
    "amend": lambda body: f"{body['experiment']}: amends #{body['registration']['seq']}: {body['reason']}",
    "void": lambda body: f"voids #{body['registration']['seq']}: {body['reason']}",
    "start": _start,
    "result": _result,
    "key": _key,
}


def log_table(entries: Sequence[Entry], width: int = 0) -> str:
    """A table of entries, oldest first; lines are cut to ``width`` columns unless it is 0."""
    rows = [("SEQ", "TIME", "KIND", "GRADE", "LEAF", "WHAT")]
    rows += [
        (
            f"#{entry.seq}",
            entry.time.replace("T", " ").rstrip("Z"),
            entry.kind,
            str(entry.header["grade"] or "-"),
            entry.leaf[:12],
            summary(entry),
        )
        for entry in entries
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]) for row in rows]
    return "\n".join(line if not width or len(line) <= width else line[: width - 1] + "…" for line in lines)


def entry_json(entry: Entry) -> dict[str, Any]:
    """An entry as JSON-ready values."""
    return asdict(entry)


def entry_page(entry: Entry) -> str:
    """Everything an entry holds, one field a line."""
    lines = [f"entry       #{entry.seq}  {entry.kind}", f"leaf        {entry.leaf}"]
    for key in ("prev", "origin", "time", "grade", "body_commit"):
        lines.append(f"{key:<12}{entry.header[key] if entry.header[key] is not None else '-'}")
    if entry.body is None:
        return "\n".join([*lines, "", "The body of this entry is withheld."])
    hidden = {"origin", "time"}
    rest = {key: value for key, value in entry.body.items() if key not in hidden}
    if entry.kind in GRADED:
        about = [f"amends      #{rest['registration']['seq']}: {rest['reason']}"] if entry.kind == "amend" else []
        return printable("\n".join([*lines, "", *about, *_claim_lines(rest)]), keep="\n")
    return printable("\n".join([*lines, "", *_lines(rest, "")]), keep="\n")


def _claim_lines(body: Mapping[str, Any]) -> list[str]:
    claim = claim_from(body["claim"])
    lines = [
        f"title       {claim.title}",
        f"who         {claim.who}",
        f"hypothesis  {claim.hypothesis.strip()}",
        f"experiment  {claim.experiment}",
        f"arms        {', '.join(claim.arms)}",
        f"runs        {', '.join(run.id for run in claim.runs)}",
    ]
    lines += [f"override    {key}: {', '.join(values)}" for key, values in claim.overrides.items()]
    for item in (body["claim_file"], *body["configs"]):
        lines.append(f"pins        {item['sha256']}  {item['path']}")
    for prediction in claim.predictions:
        lines.append(f"prediction  {prediction.id}: {prediction.says}")
        lines.append(
            f"            if {rule_text(prediction.rule)}; at least {prediction.min_n} items; "
            f"missing numbers: {prediction.missing}"
        )
    return lines if claim.predictions else [*lines, "prediction  none: this can never be confirmatory"]


def _lines(value: Any, indent: str) -> list[str]:
    lines: list[str] = []
    for key, item in value.items():
        if isinstance(item, dict) and item:
            lines += [f"{indent}{key}", *_lines(item, indent + "  ")]
        elif isinstance(item, list) and item:
            lines.append(f"{indent}{key}")
            lines += ["  ".join([f"{indent} ", *(str(cell) for cell in row.values())]) for row in item]
        else:
            shown = "-" if item in (None, "", [], {}) else str(item).rstrip("\n").replace("\n", f"\n{indent}    ")
            lines.append(f"{indent}{key}  {shown}")
    return lines
