"""A reproduction for people: on the terminal, and as ``claims.md``."""

from __future__ import annotations

from collections.abc import Iterator

from workflow.reproduce.claims import ClaimFound, Condition, Predicted
from workflow.reproduce.outcome import Outcome
from workflow.reproduce.rebuild import Rebuilt

TOLERANCE = (
    "A rule compares the unrounded number with the registered threshold; nothing is rounded or forgiven. The margin is "
    "how far the number lies on the side that meets the condition; a negative one does not meet it."
)


def experiment_line(one: Rebuilt) -> str:
    """What was rebuilt of one experiment, in one line."""
    if one.problems:
        return f"{one.name}: NOT reproduced, {len(one.problems)} problems, the first: {one.problems[0]}"
    if one.cells is None:
        return f"{one.name}: {one.samples} answers scored again as stored; {one.tables} table, new since"
    said = f"{one.name}: {one.tables} tables, {one.figures} figures; {one.cells.equal} numbers equal"
    said += f", {one.cells.close} equal but for their last bits" if one.cells.close else ""
    said += f"; {one.checked[0]} + {one.checked[1]} recomputed (published, rebuilt)"
    new = [f"{name} ({count})" for name, count in one.cells.new_tables.items()]
    said += f"; tables new since: {', '.join(new)}" if new else ""
    more = [f"{name} ({count})" for name, count in one.cells.new_cells.items()]
    said += f"; numbers new since in {', '.join(more)}" if more else ""
    said += f"; {len(one.cells.reworded)} printed with other digits" if one.cells.reworded else ""
    # A picture by newer code shows the same numbers: each of its points is a cell that was compared.
    return said + (f"; {len(one.redrawn)} of {2 * one.figures} pictures drawn anew" if one.redrawn else "")


def outcome_text(found: Outcome) -> str:
    """Claim by claim, then every problem, then the line of counts."""
    lines: list[str] = []
    for claim in found.claims:
        lines += ["", f"{claim.experiment}: {claim.title}", f"  {_registered(claim)}"]
        lines += [] if claim.predictions else [f"  {_nothing(claim)}"]
        for each in claim.predictions:
            lines += _predicted(each)
    lines += ["", *(f"PROBLEM {problem}" for problem in found.problems)]
    return "\n".join([*lines, f"ledger: {found.ledger}", found.last_line()]) + "\n"


def claims_markdown(found: Outcome) -> str:
    """``claims.md``: one table per claim."""
    lines = ["# Claims, and what the published samples say", "", found.last_line() + ".", "", TOLERANCE]
    for claim in found.claims:
        lines += ["", f"## {claim.experiment}", "", claim.title + ".", "", _registered(claim) + ".", ""]
        if not claim.predictions:
            lines.append(_nothing(claim) + ".")
            continue
        lines += ["| | Prediction | Expected | Found | n | Margin | Verdict |", "|---|---|---|---:|---:|---:|---|"]
        lines += [row for each in claim.predictions for row in _rows(each)]
    lines += ["", "## Rebuilt", "", *(f"* {_cell(experiment_line(one))}" for one in found.experiments)]
    if found.problems:
        lines += ["", "## Problems", "", *(f"* {problem}" for problem in found.problems)]
    return "\n".join(lines) + "\n"


def _registered(claim: ClaimFound) -> str:
    return f"registered #{claim.seq} of main, {claim.time}; {claim.grade}; order shown: {claim.tier}; {claim.state}"


def _nothing(claim: ClaimFound) -> str:
    return "it predicted nothing" if claim.grade == "no_prediction" else "none of its predictions was decided"


def _predicted(each: Predicted) -> Iterator[str]:
    published = "as published" if each.verdict == each.published else f"published: {each.published}"
    yield f"  {each.id:<3} {each.verdict.upper()} ({published}): {each.says}"
    for condition in each.conditions:
        joined = f"{each.joined}: " if each.joined else ""
        yield f"      expected  {joined}{condition.words}"
        counted = f"n = {_n(condition)}{_status(condition)}"
        yield f"      found     {_found(condition)} ({counted}), margin {_margin(condition)}"
    if each.verdict in ("undecided", "deviated"):
        yield f"      why       {each.reason}"


def _rows(each: Predicted) -> Iterator[str]:
    for index, condition in enumerate(each.conditions):
        first = index == 0
        verdict = each.verdict + ("" if each.verdict == each.published else f" (published: {each.published})")
        expected = (f"{each.joined}: " if first and each.joined else "") + condition.words
        places = (
            each.id if first else "",
            each.says if first else "",
            expected,
            _found(condition),
            _n(condition) + _status(condition),
            _margin(condition),
            verdict if first else "",
        )
        yield "| " + " | ".join(map(_cell, places)) + " |"


def _found(condition: Condition) -> str:
    return "no number" if condition.found is None else f"{condition.found:.6g}"


def _margin(condition: Condition) -> str:
    return "none" if condition.margin is None else f"{condition.margin:+.6g}"


def _n(condition: Condition) -> str:
    return "none" if condition.n is None else str(condition.n)


def _status(condition: Condition) -> str:
    return "" if condition.status == "ok" else f", {condition.status}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
