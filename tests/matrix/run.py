"""``make test-matrix``: the gates of METHOD section 3 under the oldest and the newest interpreter and transformers.

Each combination has an environment of its own below ``.venv-matrix``, made once from ``constraints.txt``; an
interpreter that is not installed is said and left out. The gates are the guard against a library that changes numbers
and tells nobody.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".venv-matrix"
MINORS = range(11, 15)
GATES = (
    "tests/core/test_gates.py", "tests/core/test_fill.py", "tests/core/test_moments.py", "tests/core/test_ridge.py",
    "tests/core/test_maps.py", "tests/families/test_family_gates.py", "tests/families/test_naive_prefill.py",
    "tests/families/test_recurrent_naive.py", "tests/families/test_qk_norm_and_windows.py",
)  # fmt: skip


@dataclass(frozen=True)
class Combination:
    """An interpreter, and a version of transformers."""

    python: str
    transformers: str

    @property
    def folder(self) -> Path:
        return HOME / f"{self.python}-transformers-{self.transformers}"


def oldest_transformers(project: str) -> str:
    """The lower bound that pyproject states."""
    found = re.search(r'"transformers>=([0-9.]+)', project)
    if found is None:
        raise SystemExit("error: pyproject.toml states no lower bound of transformers")
    low = found[1]
    return low if low.count(".") == 2 else f"{low}.0"


def newest_transformers(constraints: str) -> str:
    """The version that the constraints pin."""
    found = re.search(r"^transformers==([0-9.]+)$", constraints, re.MULTILINE)
    if found is None:
        raise SystemExit("error: constraints.txt pins no version of transformers")
    return found[1]


def interpreters() -> list[str]:
    """Installed ``python3.N`` that the project supports, oldest first; one that does not start is none."""
    stated = str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"])
    low = int(stated.removeprefix(">=3."))
    found = []
    for minor in MINORS:
        name = f"python3.{minor}"
        path = shutil.which(name) if minor >= low else None
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            found.append(name)
    return found


def combinations(pythons: list[str], versions: list[str]) -> list[Combination]:
    """Oldest and newest interpreter, each with every version: once where two ends are the same."""
    ends = dict.fromkeys([pythons[0], pythons[-1]])
    return [Combination(python, version) for python in ends for version in dict.fromkeys(versions)]


def made(one: Combination, pinned: str) -> Path | None:
    """The interpreter of a combination's environment; None, with the reason said, when it cannot be had."""
    binary, ready = one.folder / "bin/python", one.folder / ".ready"
    if ready.is_file() and ready.stat().st_mtime >= (ROOT / "constraints.txt").stat().st_mtime:
        return binary
    pip = [str(binary), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    steps = [[one.python, "-m", "venv", str(one.folder)], [*pip, "-c", "constraints.txt", "-e", ".[pipeline,dev]"]]
    if one.transformers != pinned:
        # Afterwards and alone: the constraints name one version, and this is another on purpose.
        steps.append([*pip, "--no-deps", f"transformers=={one.transformers}"])
    print(f"{one.python}, transformers {one.transformers}: making {one.folder}, some minutes")
    for step in steps:
        done = subprocess.run(step, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
            print(f"{one.python}, transformers {one.transformers}: no environment ({reason})")
            return None
    ready.touch()
    return binary


def passes(binary: Path, gates: tuple[str, ...] = GATES) -> tuple[bool, str]:
    """Whether the gates pass under an interpreter, and the last line of pytest."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(binary), "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider", "-m", "not slow", *gates],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        print(done.stdout[-4000:])
    return done.returncode == 0, (done.stdout.strip().splitlines() or ["pytest said nothing"])[-1]


def main() -> int:
    """Entry point: 1 when a gate failed or no combination could be tried."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", help="only this interpreter, such as python3.13")
    parser.add_argument("--transformers", help="only this version, such as 5.24.0")
    arguments = parser.parse_args()
    pythons = [arguments.python] if arguments.python else interpreters()
    if not pythons:
        print("error: no python3.11 or newer was found")
        return 1
    pinned = newest_transformers((ROOT / "constraints.txt").read_text())
    ends = [oldest_transformers((ROOT / "pyproject.toml").read_text()), pinned]
    wanted = combinations(pythons, [arguments.transformers] if arguments.transformers else ends)
    failed, tried = 0, 0
    for one in wanted:
        binary = made(one, pinned)
        if binary is None:
            continue
        tried += 1
        fine, said = passes(binary)
        failed += not fine
        print(f"{one.python}, transformers {one.transformers}: {'gates hold' if fine else 'GATES FAIL'} ({said})")
    return int(failed > 0 or tried == 0)


if __name__ == "__main__":
    sys.exit(main())
