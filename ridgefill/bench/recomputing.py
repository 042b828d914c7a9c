"""How long it takes to check every number of a published report by the other code path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from subprocess import run
from time import perf_counter

from ridgefill.bench.row import Row
from ridgefill.results import read_json

MOST_SECONDS = 10.0
_CHECK = "import sys; from ridgefill.recompute import recompute; sys.exit(len(recompute(sys.argv[1]).mismatches) > 0)"


@dataclass(frozen=True)
class RecomputeSettings:
    """results: folder of published experiments, of which the one with the most numbers is checked."""

    results: Path
    repeats: int = 3


def rows(settings: RecomputeSettings) -> Iterator[Row]:
    """One row: seconds of a whole process, start to end. It has no value where a number disagrees."""
    found = [(_numbers(path), path.parent) for path in settings.results.glob("*/cells.json")]
    if not found:
        yield _row("no experiment", nan, f"not measured: {settings.results} holds no folder with a cells.json")
        return
    numbers, folder = max(found)
    what = f"all {numbers} numbers of {folder.name}"
    taken = []
    for _ in range(settings.repeats):
        begin = perf_counter()
        done = run([sys.executable, "-c", _CHECK, str(folder)], check=False, capture_output=True, text=True)
        taken.append(perf_counter() - begin)
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:] or ["numbers disagree; run ridgefill recompute to see them"]
            yield _row(what, nan, f"not measured: {reason[0]}")
            return
    middle = sorted(taken)[len(taken) // 2]
    yield _row(what, middle, "start-up, reading rows as Python values, and resampling", min(taken), max(taken))


def _numbers(path: Path) -> int:
    return len(read_json(path).get("cells", ()))


def _row(what: str, value: float, limited: str, low: float = nan, high: float = nan) -> Row:
    return Row(
        "recompute", f"seconds to recompute {what}, one process", value, MOST_SECONDS, MOST_SECONDS, "less", limited,
        low, high,
    )  # fmt: skip
