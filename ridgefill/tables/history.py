"""What the ledger says of one experiment: registered, amended, voided, every attempt with its beginning and end.

Reads the entries as the ledger stores them, without its package, and judges nothing: ``ledger verify`` does that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.results import read_json

WORDS = {"register": "registered", "amend": "amended", "void": "voided", "start": "started"}


@dataclass(frozen=True)
class Event:
    """One entry: ``what`` is registered, amended, voided, started, finished or failed; ``words`` a run or a reason."""

    branch: str
    seq: int
    what: str
    words: str
    time: datetime

    @property
    def entry(self) -> str:
        """As the results name it: ``main/17``."""
        return f"{self.branch}/{self.seq}"


@dataclass(frozen=True)
class Attempt:
    """One attempt at a run. ``end`` is None while it has no result; ``used`` where the printed numbers are its own."""

    run: str
    start: Event
    end: Event | None
    used: bool


@dataclass(frozen=True)
class History:
    """All events in the order of their entries, branch by branch, and the attempts among them."""

    events: tuple[Event, ...]
    attempts: tuple[Attempt, ...]


def load_history(ledger: Path | None, provenance: Path, experiment: str) -> History | None:
    """The history of ``experiment`` in the branches that ``provenance`` names, below the folder ``ledger``.

    None where there is no such ledger, or where it does not hold the registration that the results were made under.
    ResultsError for a provenance or an entry that is not readable as one.
    """
    record = read_json(provenance)
    try:
        return _history(ledger, record, experiment)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ResultsError(
            f"{provenance} or an entry of {ledger} is malformed ({error!r}); run `ledger verify`, then the report step"
        ) from error


def _history(ledger: Path | None, record: Mapping[str, Any], experiment: str) -> History | None:
    registration = record["registration"]
    if ledger is None or not _holds(ledger, registration):
        return None
    names = dict.fromkeys((str(registration["branch"]), str(record.get("branch", registration["branch"]))))
    events: list[Event] = []
    attempts: list[Attempt] = []
    for branch in names:
        used = {int(run["start"]) for run in record["runs"].values()} if branch == record.get("branch") else set()
        found, tried = _branch(ledger, branch, experiment, used)
        events += found
        attempts += tried
    return History(tuple(events), tuple(attempts))


def _holds(ledger: Path, registration: Mapping[str, Any]) -> bool:
    """Whether the entry that the results name is there, byte for byte: its leaf hash is the one they recorded."""
    path = ledger / str(registration["branch"]) / "entries" / f"{int(registration['seq']):08d}.json"
    return path.is_file() and hashlib.sha256(b"\x00" + path.read_bytes()).hexdigest() == registration["leaf"]


def _entries(folder: Path) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Header and body of every entry whose body is not withheld."""
    for path in sorted((folder / "entries").glob("*.json")):
        body = folder / "bodies" / path.name
        if body.is_file():
            yield read_json(path), read_json(body)


def _branch(ledger: Path, branch: str, experiment: str, used: set[int]) -> tuple[list[Event], list[Attempt]]:
    events: list[Event] = []
    mine: set[int] = set()
    attempts: dict[int, Attempt] = {}
    for header, body in _entries(ledger / branch):
        seq, kind = int(header["seq"]), str(header["kind"])

        def event(what: str, words: str, seq: int = seq, time: str = str(header["time"])) -> Event:
            return Event(branch, seq, what, words, datetime.fromisoformat(time))

        if kind in ("register", "amend", "start") and body.get("experiment") == experiment:
            words = str(body["run"]) if kind == "start" else str(body.get("reason") or header.get("grade") or "")
            events.append(event(WORDS[kind], words))
            mine.add(seq)
            if kind == "start":
                attempts[seq] = Attempt(str(body["run"]), events[-1], None, seq in used)
        elif kind == "void" and body["registration"]["seq"] in mine:
            events.append(event(WORDS[kind], str(body["reason"])))
        elif kind == "result" and body["start"]["seq"] in attempts:
            begun = attempts[body["start"]["seq"]]
            end = event("finished" if body["status"] == "ok" else "failed", begun.run)
            events.append(end)
            attempts[begun.start.seq] = Attempt(begun.run, begun.start, end, begun.used)
    return events, list(attempts.values())
