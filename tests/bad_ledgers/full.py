"""The second golden project, ``full/``: every kind of entry, signatures, an outside time stamp and verdicts.

Main: 0 genesis, 1 key alice, 2 register demo, 3 amend #2, 4 start demo, 5 result, 6 register dropped, 7 void #6,
8 register later, 9 start later, 10 failed result, 11 amend #8 after that start, 12 start later, 13 result,
14 key alice-2 in the place of alice, 15 key bob (cosigner), 16 register idle. Checkpoints: 4 with a time stamp,
8, 15 signed by both of alice's keys, 16 cosigned by bob. Side stands on the first eight entries of main:
0 fork, 1 start demo, 2 failed result.

The private keys are test keys that anybody can compute, see ``forging.key_of_tests``.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from forging import cosigned_at, key_of_tests, put, signed, write_table

from ledger.amending import amend, void
from ledger.branches import create_branch
from ledger.checkpoints import token_path
from ledger.launch import Attempt, find_registration, launch
from ledger.registration import register
from ledger.signing.notes import COSIGNATURE, VerifierKey
from ledger.store import Ledger
from ledger.verify import verify

BEGAN = datetime(2026, 11, 1, 8, 0, tzinfo=UTC)
STAMPED = BEGAN + timedelta(minutes=5, seconds=30)  # after entry 3 and before entry 4
ROOT_PEM = "tsa-root.pem"
CLAIM = """\
who: "A. Person"
title: "The claim about {name}"
hypothesis: "A fitted map keeps what a copied state loses."
experiment: {name}
arms: [exact, identity, ridgefill]
start_by: "2026-12-31"
runs:
  - id: ruler
    configs: [workflow/config/{name}.yaml]
predictions:
  - id: h1
    says: "the map beats the copy"
    rule: {{metric: score, arm: ridgefill, baseline: identity, set: {{model: m, split: 19}}, \
statistic: ci_low, op: ">", threshold: "{threshold}"}}
    min_n: 30
    missing: undecided
  - id: h2
    says: "the map loses nothing"
    rule: {{metric: score, arm: ridgefill, baseline: exact, set: {{model: m, split: 19}}, \
statistic: lower_bound, op: ">", threshold: "0"}}
    min_n: 30
    missing: undecided
  - id: h3
    says: "the map is faster"
    rule: {{metric: speed, arm: ridgefill, set: {{model: m, split: 19}}, \
statistic: estimate, op: ">=", threshold: "1.5"}}
    min_n: 1
    missing: undecided
"""


def make_full(folder: Path) -> None:
    """Write the project at ``folder``, whose parent must be in no git repository: starts then name no commit."""
    for name in ("demo", "dropped", "later", "idle"):
        put(folder / f"workflow/config/{name}.yaml", f"title: {name}\n")
        _claim(folder, name, "0")
    with patch("ledger.store.datetime", _Clock(BEGAN)):
        main = _decided_run(folder)
        _deviated_run(folder, main)
        _keys_and_end(folder, main)
    shutil.rmtree(folder / "data/ledger/.leases")
    for experiment, verdicts in _verdicts(folder).items():
        put(folder / f"data/results/{experiment}/verdicts.json", json.dumps(verdicts, indent=1) + "\n")


class _Clock:
    """In the place of ``datetime``: the next minute at every question."""

    def __init__(self, began: datetime) -> None:
        self.time = began

    def now(self, zone: Any) -> datetime:
        """One minute more than the last answer."""
        self.time += timedelta(minutes=1)
        return self.time.astimezone(zone)


def _claim(root: Path, name: str, threshold: str) -> Path:
    path = Path(f"workflow/claims/{name}.yaml")
    put(root / path, CLAIM.format(name=name, threshold=threshold))
    return path


def _decided_run(root: Path) -> Ledger:
    """Entries 0 to 7 of main, and the whole side branch."""
    main = create_branch(root, "main", "full/main", "The full ledger of the tests")
    _key(main, key_of_tests("alice").verifier())
    register(root, main, Path("workflow/claims/demo.yaml"))
    amend(root, main, 2, _claim(root, "demo", "0.5"), "the threshold was a slip of the pen")
    signed(root, 4, key_of_tests("alice"))
    _stamp(root, main)
    with _launch(root, "demo") as attempt:
        _write_and_finish(root, attempt)
    register(root, main, Path("workflow/claims/dropped.yaml"))
    void(main, 6, "nobody has the time")
    signed(root, 8, key_of_tests("alice"))
    create_branch(root, "side", "full/side")
    _fail(root, "demo", "side")
    return main


def _deviated_run(root: Path, main: Ledger) -> None:
    """Entries 8 to 13 of main: an amendment that came after a start."""
    register(root, main, Path("workflow/claims/later.yaml"))
    _fail(root, "later", "main")
    amend(root, main, 8, _claim(root, "later", "0.25"), "seen that it fails otherwise")
    with _launch(root, "later") as attempt:
        _write_and_finish(root, attempt)


def _keys_and_end(root: Path, main: Ledger) -> None:
    """Entries 14 to 16 of main, and the checkpoints over them."""
    alice, successor, bob = (key_of_tests(name) for name in ("alice", "alice-2", "bob"))
    _key(main, successor.verifier(), replaces=alice.verifier().key_id.hex(), reason="a new laptop")
    signed(root, 15, alice, successor)
    _key(main, bob.verifier(COSIGNATURE))
    signed(root, 16, successor)
    cosigned_at(root, 16, bob, int((BEGAN + timedelta(days=1)).timestamp()))
    register(root, main, Path("workflow/claims/idle.yaml"))


def _key(main: Ledger, key: VerifierKey, replaces: str | None = None, reason: str = "") -> None:
    role = "cosigner" if key.algorithm == COSIGNATURE else "signer"
    body = {"public_key": key.text(), "role": role, "replaces": replaces, "lost": False, "reason": reason}
    main.append("key", body)


def _launch(root: Path, name: str, branch: str = "main") -> Any:
    found = find_registration(root, ["main"], Path(f"workflow/claims/{name}.yaml"))
    return launch(root, branch, found, "ruler")


def _write_and_finish(root: Path, attempt: Attempt) -> None:
    """Forty questions; the map gains between 0 and 3 over the copy and loses between 0 and 1 to the exact state."""
    base = root / "data/results" / attempt.registration.claim.experiment
    write_table(base / "ruler/scores.parquet", scores(), {"run_seed": str(attempt.seed)})
    attempt.finish(["ruler/scores.parquet"], base, published=["ruler/scores.parquet"])


def scores() -> Iterator[dict[str, Any]]:
    """Rows in the long layout that the ``table`` provider reads."""
    for number in range(40):
        exact = 8.0 + number % 3
        values = {"exact": exact, "ridgefill": exact - number % 2, "identity": exact - number % 2 - number % 4}
        for arm, value in values.items():
            split = None if arm == "exact" else 19
            yield {"metric": "score", "arm": arm, "split": split, "item": f"q{number:02}", "value": value}


def _fail(root: Path, name: str, branch: str) -> None:
    try:
        with _launch(root, name, branch):
            raise RuntimeError("stopped by hand")
    except RuntimeError:
        return  # its result entry says so


def _stamp(root: Path, main: Ledger) -> None:
    """Put the answer of a test authority beside the first checkpoint, and its root into the project."""
    folder = root / "authority"
    folder.mkdir()
    end = datetime(2036, 1, 1, tzinfo=UTC)
    authority = _authority().Authority(folder, start=datetime(2026, 1, 1, tzinfo=UTC), end=end)
    token_path(main.path, 4).write_bytes(authority.reply(main.checkpoint().text().encode(), STAMPED))
    (root / ROOT_PEM).write_bytes(authority.root_pem)
    shutil.rmtree(folder)


def _authority() -> ModuleType:
    path = Path(__file__).parents[1] / "ledger" / "authority.py"
    spec = importlib.util.spec_from_file_location("authority", path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _verdicts(root: Path) -> dict[str, list[dict[str, str]]]:
    decided = verify(root).branches[0].decided
    return {
        item.experiment: [{"id": verdict.id, "verdict": verdict.verdict} for verdict in item.verdicts]
        for item in decided
    }
