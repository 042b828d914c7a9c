"""Evidence that a registration came before its run, beyond hash links: seeds (T2) and outside time (T3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ledger.artifacts import SEED_KEY, results_folder
from ledger.custody import Vouched
from ledger.entry import Entry
from ledger.errors import FormatError
from ledger.files import hash_file, inside
from ledger.measures import MeasureError
from ledger.numbers import parquet_metadata
from ledger.world import World


def shown_tiers(root: Path, world: World, vouched: Mapping[str, Sequence[Vouched]]) -> dict[tuple[str, int], str]:
    """(branch, seq of a start) -> T2 or T3, for every start whose result reached it.

    T2: an output, its bytes as recorded, states the seed the registration gives (Parquet metadata
    ``run_seed``). T3: an outside token over a checkpoint that holds the registration, and not the start, is
    dated before the start.
    """
    shown: dict[tuple[str, int], str] = {}
    for name, chain in world.chains.items():
        for entry in chain.entries:
            if entry.kind != "start" or entry.body is None or (found := world.registration_of(entry)) is None:
                continue
            branch, version = found
            if any(_dated(item, version, entry, branch == name) for item in vouched.get(branch, ())):
                shown[name, entry.seq] = "T3"
        for entry in chain.entries:
            if entry.kind == "result" and entry.body is not None and entry.body["status"] == "ok":
                start = world.entry(name, entry.body["start"]["seq"])
                if start is not None and start.kind == "start" and _states_seed(root, name, start, entry):
                    shown.setdefault((name, start.seq), "T2")
    return shown


def _dated(item: Vouched, version: Entry, start: Entry, same_branch: bool) -> bool:
    if item.stamped is None or not version.seq < item.size:
        return False
    return item.stamped < start.time and not (same_branch and item.size > start.seq)


def _states_seed(root: Path, branch: str, start: Entry, result: Entry) -> bool:
    body, outputs = start.body, (result.body or {})["outputs"]
    if body is None:
        return False
    folder = results_folder(root, branch, body["experiment"])
    for output in outputs:
        if not output["path"].endswith(".parquet"):
            continue
        try:
            path = inside(folder, output["path"])
            if parquet_metadata(path).get(SEED_KEY) == body["seed"] and hash_file(path)[0] == output["sha256"]:
                return True
        except (OSError, FormatError, MeasureError):
            continue
    return False
