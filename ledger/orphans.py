"""Starts that have no result: those at work here, and those that nobody works on any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.branches import branch_names, open_branch
from ledger.entry import Entry
from ledger.hints import branch_option
from ledger.lease import Holder, holder_of
from ledger.views import printable


@dataclass(frozen=True)
class OpenStart:
    """A ``start`` without ``result``; ``holder`` is who works on it on this machine, or None."""

    entry: Entry
    holder: Holder | None


def open_starts(root: Path, entries: Sequence[Entry]) -> tuple[OpenStart, ...]:
    """Every start of one chain without a result; none when results are withheld, since those may close any."""
    results = [entry for entry in entries if entry.kind == "result"]
    if any(entry.body is None for entry in results):
        return ()
    closed = {(entry.body or {})["start"]["seq"] for entry in results}
    starts = [entry for entry in entries if entry.kind == "start" and entry.body is not None]
    return tuple(OpenStart(entry, _holder(root, entry)) for entry in starts if entry.seq not in closed)


def _holder(root: Path, start: Entry) -> Holder | None:
    """Who has the lease of the run, unless it is had for another start of the same run."""
    body = start.body or {}
    holder = holder_of(root, body["experiment"], body["run"], body["label"])
    return holder if holder is not None and holder.start in (None, start.leaf) else None


def orphans(root: Path, branch: str) -> tuple[Entry, ...]:
    """Starts of a branch without a result that nobody works on here; none when there is no such branch."""
    if branch not in branch_names(root):
        return ()
    starts = open_starts(root, open_branch(root, branch).entries())
    return tuple(item.entry for item in starts if item.holder is None)


def orphan_lines(root: Path, branch: str) -> tuple[str, ...]:
    """One line for each orphan: what it is, since when, and what closes it."""
    return tuple(
        f"note: start #{entry.seq} ({run_name(entry)}) of {entry.time} has no result and nobody works on it here: "
        f"{close_command(entry.seq, branch)}"
        for entry in orphans(root, branch)
    )


def run_name(start: Entry) -> str:
    """``demo/ruler`` and the label, safe to print."""
    body = start.body or {}
    return printable(f"{body['experiment']}/{body['run']} {body['label']}".rstrip())


def close_command(seq: int, branch: str) -> str:
    """What to type to close an orphan as failed."""
    return f'`ledger result {seq} --failed "why"{branch_option(branch)}`'
