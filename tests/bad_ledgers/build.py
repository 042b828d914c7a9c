"""Build the bad ledgers from the good ones: ``python tests/bad_ledgers/build.py``.

``good/`` and ``full/`` are whole small projects with ledgers that verify; they are kept as they are for as
long as format version 1 lives (``--new-good`` and ``--new-full`` write others). Every ``NAME_fail/`` holds
only what differs: ``expected`` (error code and exit code), ``base`` when that is not ``good``, ``files/`` laid
over the project, ``remove``, one path a line, taken away from it, and ``arguments``, one a line, which
``ledger verify`` is given in the project's folder.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from forging import (
    GONE,
    MAIN,
    NOON,
    SALT,
    body,
    entry,
    flip,
    forge,
    forget,
    put,
    reforge,
    replace,
    salt,
    stored,
    swap,
)
from full import ROOT_PEM, make_full
from full_cases import CASES as FULL_CASES
from full_cases import STAMPS

from ledger.branches import create_branch
from ledger.launch import find_registration, launch
from ledger.registration import register

HERE = Path(__file__).parent
SIDE = "data/ledger/side"
CLAIM = """\
who: "A. Person"
title: "{title}"
hypothesis: "Needles survive the fill."
experiment: {name}
arms: [exact, ridgefill]
runs:
  - id: ruler
    configs: [workflow/config/{name}.yaml]
predictions:{predictions}
"""
PREDICTION = """
  - id: h1
    says: "at most two points are lost"
    rule: {metric: ruler_all, arm: ridgefill, baseline: exact, set: {model: m, split: 19}, \
statistic: lower_bound, op: ">", threshold: "-2"}
    min_n: 30
    missing: undecided"""


def insert(root: Path) -> None:
    """Push entries 3.. up by one place and put a copy of 2 in the gap."""
    for seq in range(6, 2, -1):
        for path in (entry, body, salt):
            path(root, seq).rename(path(root, seq + 1))
    for path in (entry, body, salt):
        shutil.copy(path(root, 2), path(root, 3))


def remove(root: Path) -> None:
    """Take entry 2 away and close the gap by renaming."""
    for path in (entry, body, salt):
        path(root, 2).unlink()
        for seq in range(3, 7):
            path(root, seq).rename(path(root, seq - 1))


def link(path: Path, target: str) -> None:
    """Replace a file by a symbolic link."""
    path.unlink()
    path.symlink_to(target)


RESULT = "data/results/demo/ruler/samples.parquet"
CONFIG = "workflow/config/demo.yaml"
Change = Callable[[Path], Any]


def last(old: bytes, new: bytes) -> Change:
    """Replace bytes in the last header of main."""
    return lambda root: replace(entry(root, 6), old, new)


def output(path: str) -> Change:
    """Let the last result name another output."""
    item = {"path": path, "sha256": "0" * 64, "bytes": 0, "published": True}
    return lambda root: reforge(root, 6, {"outputs": [item]})


def start(**fields: Any) -> Change:
    """Change the last start and drop its result."""
    return lambda root: (reforge(root, 5, fields), forget(root, 6))


def registered(**fields: Any) -> Change:
    """Change what the last start says about its registration, and drop its result."""
    return lambda root: start(registration={**stored(root, 5)["registration"], **fields})(root)


def rewrite_parent(root: Path) -> None:
    """Let the side branch stand on another checkpoint than main ever had."""
    text = stored(root, 0, SIDE)["checkpoint"].replace("\n5\n", "\n3\n")
    reforge(root, 0, {"checkpoint": text}, SIDE)
    forget(root, 1, 2, branch=SIDE)


def begin_with_a_result(root: Path) -> None:
    """Put a result where the genesis was."""
    pointer = {"seq": 0, "leaf": "0" * 64}
    fields = {"title": GONE, "start": pointer, "status": "ok", "message": "", "outputs": []}
    reforge(root, 0, fields, kind="result")


def link_entry(root: Path) -> None:
    """Move the last header away and leave a link to it."""
    entry(root, 6).rename(root / "moved")
    entry(root, 6).symlink_to("../../../../moved")


def empty_claim(root: Path) -> None:
    """Take the runs out of a registered claim."""
    reforge(root, 4, {"claim": {**stored(root, 4)["claim"], "runs": []}})
    forget(root, 5, 6)


def flip_before(seq: int, mark: bytes) -> Change:
    """Flip a bit of the byte before ``mark`` in a header."""
    return lambda root: flip(entry(root, seq), entry(root, seq).read_bytes().index(mark) - 1)


OTHER = [{"path": "workflow/config/explore.yaml", "sha256": "0" * 64}]
LEAP = "2026-02-30T00:00:00Z"
# Entries of main: 0 genesis, 1 register demo, 2 start, 3 result, 4 register explore, 5 start, 6 result.
CASES: dict[str, tuple[str, int, Change]] = {
    "header_byte": ("bad_value", 4, last(b'"kind":"', b'"kind":"\x7f')),
    "header_time": ("header_body_mismatch", 4, flip_before(6, b'Z","version"')),
    "earlier_header": ("wrong_prev", 4, flip_before(2, b'Z","version"')),
    "body_byte": ("wrong_commit", 4, lambda r: flip(body(r, 6), 12)),
    "salt_byte": ("wrong_commit", 4, lambda r: flip(salt(r, 6), 5)),
    "wrong_salt": ("wrong_commit", 4, lambda r: salt(r, 3).write_text(SALT)),
    "salt_upper_case": ("bad_salt", 4, lambda r: salt(r, 3).write_text("AB" * 32)),
    "salt_newline": ("bad_salt", 4, lambda r: salt(r, 3).write_text(salt(r, 3).read_text() + "\n")),
    "removed_entry": ("missing_entry", 4, lambda r: entry(r, 3).unlink()),
    "removed_and_closed": ("wrong_seq", 4, remove),
    "cut_end": ("missing_entry", 4, lambda r: entry(r, 6).unlink()),
    "emptied": ("missing_entry", 4, lambda r: [entry(r, seq).unlink() for seq in range(7)]),
    "inserted_entry": ("wrong_seq", 4, insert),
    "duplicated_entry": ("wrong_seq", 4, lambda r: shutil.copy(entry(r, 6), entry(r, 7))),
    "renumbered_inside": ("wrong_seq", 4, last(b'"seq":6', b'"seq":7')),
    "reordered": ("wrong_seq", 4, lambda r: swap(entry(r, 5), entry(r, 6))),
    "forked_sequence": ("unexpected_file", 4, lambda r: shutil.copy(entry(r, 6), f"{entry(r, 6)}.orig")),
    "respelled_number": ("float", 4, last(b'"seq":6', b'"seq":6.0')),
    "respelled_text": ("not_canonical", 4, last(b'"result"', b'"r\\u0065sult"')),
    "duplicate_key": ("duplicate_key", 4, last(b'"seq":6', b'"seq":5,"seq":6')),
    "unknown_field": ("unknown_field", 4, lambda r: reforge(r, 6, {}, note="x")),
    "missing_field": ("missing_field", 4, last(b'"grade":null,', b"")),
    "unknown_body_field": ("unknown_field", 4, lambda r: reforge(r, 6, {"note": "x"})),
    "line_endings": ("not_canonical", 4, last(b'"version":1}', b'"version":1}\r\n')),
    "not_utf8": ("not_utf8", 4, last(b'"result"', b'"r\xe9sult"')),
    "unknown_kind": ("unknown_kind", 4, lambda r: reforge(r, 6, {}, kind="bless")),
    "later_version": ("bad_version", 4, lambda r: reforge(r, 6, {}, version=2)),
    "impossible_time": ("bad_value", 4, lambda r: reforge(r, 6, {"time": LEAP}, time=LEAP)),
    "second_genesis": ("misplaced_kind", 4, lambda r: forge(r, 7, {"title": "again"}, kind="genesis")),
    "no_genesis": ("misplaced_kind", 4, begin_with_a_result),
    "other_origin": ("wrong_origin", 4, lambda r: reforge(r, 6, {"origin": "else/1"}, origin="else/1")),
    "half_withheld": ("half_withheld", 4, lambda r: salt(r, 6).unlink()),
    "entry_is_a_link": ("symlink", 4, link_entry),
    "path_outside": ("path_outside", 4, output("../../x")),
    "absolute_path": ("path_outside", 4, output("/etc/hostname")),
    "output_links_outside": ("path_outside", 4, lambda r: link(r / RESULT, "/etc/hostname")),
    "start_without_registration": ("unknown_registration", 4, registered(leaf="0" * 64)),
    "start_of_a_result": ("unknown_registration", 4, registered(seq=3)),
    "result_without_start": (
        "unknown_start",
        4,
        lambda r: reforge(r, 6, {"start": {"seq": 5, "leaf": "0" * 64}}),
    ),
    "second_result": ("second_result", 4, lambda r: forge(r, 7, {**stored(r, 6), "time": NOON}, time=NOON)),
    "made_up_grade": (
        "wrong_grade",
        4,
        lambda r: (reforge(r, 4, {}, grade="confirmatory"), forget(r, 5, 6)),
    ),
    "made_up_seed": ("wrong_seed", 4, start(seed="7")),
    "other_config_hash": ("wrong_configs", 4, start(configs=OTHER)),
    "run_not_in_claim": ("not_in_claim", 4, start(run="other")),
    "override_not_in_claim": ("not_in_claim", 4, start(overrides={"dtype": "bfloat16"})),
    "bad_claim": ("bad_claim", 4, empty_claim),
    "parent_rewritten": ("parent_mismatch", 4, rewrite_parent),
    "branch_copied": ("same_origin", 4, lambda r: shutil.copytree(r / MAIN, r / "data/ledger/twin")),
    "changed_config": ("config_drift", 5, lambda r: replace(r / CONFIG, b"demo", b"dome")),
    "config_line_endings": ("config_drift", 5, lambda r: replace(r / CONFIG, b"\n", b"\r\n")),
    "changed_result": ("output_changed", 5, lambda r: replace(r / RESULT, b"score", b"sc0re")),
    "removed_result": ("output_missing", 5, lambda r: (r / RESULT).unlink()),
    "unregistered_results": ("unregistered_results", 5, lambda r: put(r / "data/results/b/a.parquet", "x")),
    "unregistered_output": ("unregistered_output", 5, lambda r: put(r / f"{RESULT}.parquet", "x")),
}


def make_good(root: Path) -> None:
    """Write the good project: a confirmatory run, an exploratory one, and a branch with a failed run."""
    for name, title, predictions in (("demo", "It works", PREDICTION), ("explore", "A look around", " []")):
        put(root / f"workflow/config/{name}.yaml", f"title: {name}\n")
        text = CLAIM.format(name=name, title=title, predictions=predictions)
        put(root / f"workflow/claims/{name}.yaml", text)
    put(root / RESULT, "score\n1\n")
    put(root / "data/results/explore/curve.parquet", "split\n19\n")
    main = create_branch(root, "main", "good/main", "The good ledger of the tests")
    for name, output in (("demo", "ruler/samples.parquet"), ("explore", "curve.parquet")):
        claim = Path(f"workflow/claims/{name}.yaml")
        register(root, main, claim)
        if name == "explore":
            side = create_branch(root, "side", "good/side")
        registration = find_registration(root, ["main"], claim)
        with launch(root, "main", registration, "ruler") as attempt:
            attempt.finish([output], root / "data/results" / name, published=[output])
    try:
        claim = Path("workflow/claims/demo.yaml")
        with launch(root, "side", find_registration(root, ["main"], claim), "ruler"):
            raise RuntimeError("stopped by hand")
    except RuntimeError:
        sys.stdout.write(f"good ledger written, {len(side.entries())} entries on its side branch\n")
    shutil.rmtree(root / "data/ledger/.leases")


def digest(path: Path) -> str:
    """What a path is, for comparing two trees."""
    return os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()


def tree(root: Path) -> dict[str, str]:
    """Every file and link below a folder."""
    paths = [path for path in root.rglob("*") if path.is_symlink() or path.is_file()]
    return {path.relative_to(root).as_posix(): digest(path) for path in paths}


def write_case(name: str, code: str, exit_code: int, change: Change, base: str = "good") -> None:
    """Write one ``NAME_fail`` folder: apply the change to a copy of a good project, keep the difference."""
    case = HERE / f"{name}_fail"
    shutil.rmtree(case, ignore_errors=True)
    case.mkdir()
    (case / "expected").write_text(f"{code} {exit_code}\n")
    if base != "good":
        (case / "base").write_text(f"{base}\n")
    if name in STAMPS:
        (case / "arguments").write_text(f"--tsa-root\n{ROOT_PEM}\n")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        shutil.copytree(HERE / base, root)
        change(root)
        before, after = tree(HERE / base), tree(root)
        for path in sorted(path for path in after if after[path] != before.get(path)):
            target = case / "files" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / path, target, follow_symlinks=False)
    gone = sorted(before.keys() - after.keys())
    if gone:
        (case / "remove").write_text("\n".join(gone) + "\n")


def main() -> None:
    """Write every case, and the good projects when asked to."""
    if "--new-good" in sys.argv:
        shutil.rmtree(HERE / "good", ignore_errors=True)
        make_good(HERE / "good")
    if "--new-full" in sys.argv:
        shutil.rmtree(HERE / "full", ignore_errors=True)
        with tempfile.TemporaryDirectory() as folder:
            make_full(Path(folder) / "full")
            shutil.copytree(Path(folder) / "full", HERE / "full")
    for name, (code, exit_code, change) in CASES.items():
        write_case(name, code, exit_code, change)
    for name, (code, exit_code, change) in FULL_CASES.items():
        write_case(name, code, exit_code, change, "full")


if __name__ == "__main__":
    main()
