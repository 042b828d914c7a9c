"""``python -m ledger.bench``: what verifying a long ledger costs beside reading, hashing and parsing its bytes.

A ledger of made-up runs is written, then verified in this same process, next to a plain loop over the same
files. Times are processor seconds of this process; only their ratios mean anything on another machine. The last
line of output is JSON.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger import folders
from ledger.branches import branch_path, create_branch, open_branch
from ledger.canonical import canonical
from ledger.checkpoint import checkpoint_of
from ledger.checkpoints import add_signatures, write_range
from ledger.custody import Trust
from ledger.entry import body_commitment
from ledger.grades import grade_of
from ledger.merkle import leaf_hash
from ledger.registration import register
from ledger.seeds import run_seed
from ledger.signing.keys import SigningKey
from ledger.since import verify_since
from ledger.verify import verify

NOW = "2026-01-01T00:00:00Z"
RUNS = 20
CLAIM = """\
who: Nobody
title: Experiment {number}
hypothesis: Made up to have something to verify.
experiment: e{number}
arms: [one]
runs: [{{id: r, configs: [config.yaml]}}]
predictions: []
"""


class Writer:
    """Writes entries without flushing each, as no real append may."""

    def __init__(self, path: Path, origin: str) -> None:
        self.path, self.origin, self.leaves = path, origin, [""][:0]
        first = folders.entry_path(path, 0).read_bytes()
        self.leaves.append(leaf_hash(first).hex())

    def write(self, kind: str, fields: dict[str, Any], grade: str | None = None) -> tuple[int, str]:
        """Write one entry; returns its number and leaf hash."""
        seq = len(self.leaves)
        body = canonical({**fields, "origin": self.origin, "time": NOW})
        salt = hashlib.sha256(str(seq).encode()).digest()
        header = {
            "version": 1, "origin": self.origin, "seq": seq, "prev": self.leaves[-1], "kind": kind, "time": NOW,
            "grade": grade, "body_commit": body_commitment(salt, body),
        }  # fmt: skip
        data = canonical(header)
        folders.entry_path(self.path, seq).write_bytes(data)
        folders.body_path(self.path, seq).write_bytes(body)
        folders.salt_path(self.path, seq).write_text(salt.hex())
        self.leaves.append(leaf_hash(data).hex())
        return seq, self.leaves[-1]


def build(root: Path, size: int) -> Writer:
    """A ledger of about ``size`` entries: registrations, each with its starts and results."""
    config = root / "config.yaml"
    config.write_text("made: up\n")
    pinned = {"path": "config.yaml", "sha256": hashlib.sha256(config.read_bytes()).hexdigest()}
    ledger = create_branch(root, "main", "bench/main")
    writer = Writer(ledger.path, ledger.origin)
    claim = {"who": "Nobody", "hypothesis": "Made up.", "arms": ["one"], "predictions": []}
    number = 0
    while len(writer.leaves) < size:
        number += 1
        runs = [{"id": f"r{index}", "configs": ["config.yaml"]} for index in range(RUNS)]
        whole = {**claim, "title": f"Experiment {number}", "experiment": f"e{number}", "runs": runs}
        body = {"experiment": f"e{number}", "claim": whole, "claim_file": pinned, "configs": [pinned]}
        seq, leaf = writer.write("register", body, grade_of(body, ()))
        for run in runs:
            start = {
                "registration": {"origin": ledger.origin, "seq": seq, "leaf": leaf}, "experiment": f"e{number}",
                "run": run["id"], "label": "", "seed": str(run_seed(leaf, f"{run['id']}/")), "configs": [pinned],
                "overrides": {}, "inputs": [], "git": None,
            }  # fmt: skip
            place = writer.write("start", start)
            done = {"start": {"seq": place[0], "leaf": place[1]}, "status": "ok", "message": "", "outputs": []}
            writer.write("result", done)
    return writer


def plain(path: Path, count: int) -> None:
    """Read, hash and strictly parse every byte of a ledger, and nothing else."""
    for seq in range(count):
        for file in (folders.entry_path(path, seq), folders.body_path(path, seq)):
            data = file.read_bytes()
            hashlib.sha256(data).digest()
            value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_float=_refuse)
            if json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode() != data:
                raise ValueError(f"{file} is not canonical")
        hashlib.sha256(folders.salt_path(path, seq).read_bytes()).digest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"a float {text}")


def timed(work: Callable[[], Any]) -> float:
    """Processor seconds that ``work`` took in this process."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def measure(root: Path, size: int, fresh: int) -> dict[str, float]:
    """Seconds of each measured step, by name."""
    writer = build(root, size)
    path = branch_path(root, "main")
    count = len(writer.leaves)
    seconds = {"plain": min(timed(lambda: plain(path, count)) for _ in range(2))}
    report = []
    seconds["verify"] = min(timed(lambda: report.append(verify(root))) for _ in range(2))
    if not report[-1].ok:
        raise RuntimeError(report[-1].text())
    ledger, claim = open_branch(root, "main"), root / "claim.yaml"
    claim.write_text(CLAIM.format(number=size))
    seconds["register_last"] = timed(lambda: register(root, ledger, claim))
    writer.leaves.append(ledger.entries()[-1].leaf)
    point = checkpoint_of(writer.origin, writer.leaves)
    key = SigningKey("bench", Ed25519PrivateKey.generate())
    add_signatures(path, point, [key.sign(point.text())])
    write_range(path, writer.leaves)
    for number in range(fresh):
        writer.write(
            "key", {"public_key": "", "role": "signer", "replaces": None, "lost": False, "reason": str(number)}
        )
    seconds["since"] = timed(lambda: verify_since(root, "main", count, Trust()))
    seconds["plain_new"] = seconds["plain"] * fresh / count
    return seconds


def measure_register(root: Path, before: int) -> float:
    """Seconds that one registration takes in a ledger that holds ``before`` of them already."""
    (root / "config.yaml").write_text("made: up\n")
    ledger = create_branch(root, "main", "bench/small")
    best = float("inf")
    for number in range(before + 5):
        claim = root / "claim.yaml"
        claim.write_text(CLAIM.format(number=number))
        took = timed(partial(register, root, ledger, claim))
        best = min(best, took) if number >= before else best
    return best


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--new", type=int, default=100, help="entries behind the checkpoint")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        seconds = measure(Path(one), arguments.entries, arguments.new)
        seconds["register"] = measure_register(Path(two), 100)
    ratio = seconds["verify"] / seconds["plain"]
    lines = [
        f"{arguments.entries:,} entries, the best of two",
        f"  read, hash and strictly parse   {seconds['plain']:8.2f} s",
        f"  ledger verify                   {seconds['verify']:8.2f} s   {ratio:.2f} times that (limit 3)",
        f"  verify --since, {arguments.new} new entries {seconds['since']:8.3f} s   "
        f"{seconds['since'] / seconds['verify']:.4f} of a whole verify",
        f"  register, 100 registrations before  {1000 * seconds['register']:.1f} ms (limit 50)",
        f"  register in that ledger         {seconds['register_last']:8.2f} s",
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.write(json.dumps({**seconds, "ratio": ratio, "entries": arguments.entries}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
