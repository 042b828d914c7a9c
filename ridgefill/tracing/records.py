"""The run behind a cell: its ledger entries, the bytes it was configured by and wrote, and the predictions on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ridgefill.errors import ResultsError
from ridgefill.provider import config_sha256
from ridgefill.results import read_json
from ridgefill.tracing.basis import Basis

ReadChain = Callable[[Path, str], Any]
"""(project, branch) -> the branch as ``ledger.chain`` reads it, or None; given by the command line, which alone may
join the two packages."""
SAME, CHANGED, ABSENT = "same", "changed", "absent"


def records_of(root: Path, folder: Path, entry: str, run: str, read_chain: ReadChain) -> dict[str, Any]:
    """The run that ``entry`` (``BRANCH/SEQ`` of its start) opened, as JSON-ready values.

    Keys: run, ledger, registration, outputs, configs, problems. Without the ledger, what ``provenance.json`` names
    is given and ``problems`` says so.
    """
    provenance = read_json(folder / "provenance.json")
    branch, _, seq = entry.rpartition("/")
    chain = read_chain(root, branch) if branch and seq.isdecimal() else None
    entries = {} if chain is None else {one.seq: one for one in chain.entries}
    start = entries.get(int(seq)) if seq.isdecimal() else None
    if chain is None or start is None or start.kind != "start" or start.body is None:
        where = f"{root / 'data/ledger' / branch}" if branch else "any ledger"
        return {**_from_provenance(provenance, entry, run), "problems": [f"the start {entry} is not in {where}"]}
    body, result = start.body, _result_of(entries.values(), start)
    registration = _registered(root, chain, body["registration"], provenance, read_chain)
    problems = [finding.line() for finding in chain.findings if finding.level == "error"]
    problems += [] if result else [f"the start {entry} has no result"]
    problems += [] if registration else [f"the registration that {entry} names is not in the ledger"]
    return {
        "run": {
            "name": body["run"], "branch": branch, "start": start.seq, "started": start.time,
            "result": result and result.seq, "ended": result and result.time,
            "status": (result.body or {})["status"] if result else "open", "git_commit": body["git"]["commit"],
            "git_dirty": body["git"]["dirty"], "seed": body["seed"],
        },
        "ledger": {"branch": branch, "entries": len(chain.entries), "sound": chain.sound},
        "registration": registration and _registration(registration),
        "outputs": [_output(folder, item) for item in ((result.body or {})["outputs"] if result else [])],
        "configs": [_file(root, item) for item in body["configs"]],
        "problems": problems,
    }  # fmt: skip


def configuration_of(folder: Path, file: str) -> dict[str, Any]:
    """The resolved configuration: its file and hash, and the hash that the measured file carries."""
    path = folder / "experiment.json"
    carried = None
    if (folder / file).suffix == ".parquet":
        try:
            carried = (pq.read_schema(folder / file).metadata or {}).get(b"config_sha256", b"").decode()
        except (OSError, ValueError) as error:
            raise ResultsError(
                f"{folder / file} is not a readable Parquet file ({error}); run its step again"
            ) from error
    found = config_sha256(read_json(path))
    return {"path": str(path), "sha256": found, "carried_by": file, "carried": carried}


def predictions_on(folder: Path, basis: Basis) -> list[dict[str, Any]]:
    """Predictions of the folder's claim with a condition on the cell's measure, each with its verdict.

    ``this`` says whether a condition is on the very arm and split; ``when`` are the conditions, and what was found.
    """
    path = folder / "verdicts.json"
    if not basis.metric or not path.is_file():
        return []
    found = []
    for one in read_json(path):
        values: Sequence[Mapping[str, Any]] = one["values"] if isinstance(one.get("values"), list) else []
        met = [value for value in values if value["metric"] == basis.metric]
        if met:
            this = any(_is_this(value, basis) for value in met)
            conditions = [value["reason"] for value in met]
            found.append({"id": one["id"], "says": one["says"], "verdict": one["verdict"], "this": this,
                          "when": conditions})  # fmt: skip
    return found


def environment_of(folder: Path) -> dict[str, str]:
    """Versions and machine of the run, as it recorded them."""
    return {str(key): str(value) for key, value in read_json(folder / "provenance.json").get("environment", {}).items()}


def _is_this(value: Mapping[str, Any], basis: Basis) -> bool:
    split = value["set"].get("split")
    return basis.arm in (value["arm"], value["baseline"]) and split in (None, basis.split)


def _result_of(entries: Any, start: Any) -> Any:
    return next(
        (
            one
            for one in entries
            if one.kind == "result" and one.body is not None and one.body["start"]["leaf"] == start.leaf
        ),
        None,
    )


def _registered(
    root: Path, chain: Any, wanted: Mapping[str, Any], provenance: Mapping[str, Any], read_chain: ReadChain
) -> Any:
    """The entry that a start names by its leaf hash; a local run is registered on the branch it was forked from."""
    if wanted["origin"] != chain.origin:
        chain = read_chain(root, str(provenance.get("registration", {}).get("branch", "")) or "main")
    entries = chain.entries if chain is not None else ()
    return next((one for one in entries if one.seq == wanted["seq"] and one.leaf == wanted["leaf"]), None)


def _registration(entry: Any) -> dict[str, Any]:
    claim = (entry.body or {}).get("claim", {})
    return {
        "seq": entry.seq, "kind": entry.kind, "time": entry.time, "grade": entry.header["grade"],
        "title": claim.get("title", ""), "leaf": entry.leaf,
    }  # fmt: skip


def _from_provenance(provenance: Mapping[str, Any], entry: str, run: str) -> dict[str, Any]:
    known = dict(provenance.get("runs", {}).get(run, {}))
    return {
        "run": {
            "name": run, "branch": entry.rpartition("/")[0], "start": known.get("start"), "result": known.get("result"),
            "status": known.get("status"), "git_commit": known.get("git_commit", provenance.get("git_commit")),
        },
        "ledger": None,
        "registration": provenance.get("registration"),
        "outputs": [],
        "configs": [],
    }  # fmt: skip


def _output(folder: Path, item: Mapping[str, Any]) -> dict[str, Any]:
    """One output of the run; those that are not published need not be here."""
    return {**_file(folder, item), "published": item["published"]}


def _file(root: Path, item: Mapping[str, Any]) -> dict[str, Any]:
    path = root / item["path"]
    if not path.is_file():
        state = ABSENT
    else:
        state = SAME if hashlib.sha256(path.read_bytes()).hexdigest() == item["sha256"] else CHANGED
    return {"path": item["path"], "sha256": item["sha256"], "state": state}
