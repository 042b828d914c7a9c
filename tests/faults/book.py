"""What a checkout's own branch of the ledger says of attempts."""

from __future__ import annotations

import json


def attempts(checkout):
    """(run, number) of every start, and (None, number of its start) of every result, in order."""
    found = []
    for path in sorted((checkout.root / "data/ledger/local/bodies").glob("*.json")):
        body = json.loads(path.read_text("utf-8"))
        if "run" in body:
            found.append((body["run"], int(path.stem)))
        elif "start" in body:
            found.append((None, body["start"]["seq"]))
    return found


def last_result(checkout):
    """Status and message of the last entry, which must be a result."""
    body = json.loads(max((checkout.root / "data/ledger/local/bodies").glob("*.json")).read_text("utf-8"))
    return body["status"], body["message"]


def open_starts(checkout):
    """Runs of the starts that have no result, one for each."""
    closed = {seq for run, seq in attempts(checkout) if run is None}
    return [run for run, seq in attempts(checkout) if run is not None and seq not in closed]


def started_meanwhile(checkout):
    """Starts of a run that were appended between an earlier start of it and that one's result."""
    runs = {seq: run for run, seq in attempts(checkout) if run is not None}
    order = attempts(checkout)
    found = []
    for place, (run, seq) in enumerate(order):
        if run is None:
            between = order[order.index((runs[seq], seq)) + 1 : place]
            found += [other for other in between if other[0] == runs[seq]]
    return found


def verified(checkout):
    """What ``ledger verify`` prints; it must find no error."""
    done = checkout.ledger("verify")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
