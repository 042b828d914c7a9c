"""A published run that has answers and no report: its scores again from the answers, and their means as a table."""

from __future__ import annotations

import csv
import io
from math import fsum
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.files import write_text
from ridgefill.recompute.scores import score
from ridgefill.results import read_table
from workflow.reproduce.evidence import SAMPLES

HEAD = ("arm", "length", "task", "samples", "points")


def samples_only(source: Path, out: Path) -> tuple[int, tuple[str, ...]]:
    """Write ``tables/samples.md`` and ``.csv`` below ``out``: mean points by arm, length and task, from the answers.

    Returns how many answers there were, and a sentence for each whose stored score it does not earn.
    """
    rows = read_table(source / SAMPLES, "ruler_samples").to_pylist()
    if not rows:
        raise ResultsError(f"{source / SAMPLES} has no rows; restore it from the repository")
    earned = [score(row["prediction"], row["references"], row["task"].startswith("qa")) for row in rows]
    wrong = tuple(
        f"{source.name}: {row['task']}/{row['length']}/{row['sample']} stores score {row['score']}, earned is {each}"
        for row, each in zip(rows, earned, strict=True)
        if row["status"] == "ok" and row["score"] != each
    )
    groups: dict[tuple[str, int, str], list[float]] = {}
    for row, each in zip(rows, earned, strict=True):
        if row["status"] == "ok":
            groups.setdefault((row["arm"], row["length"], row["task"]), []).append(100.0 * each)
    lines: list[tuple[Any, ...]] = [
        (*group, len(points), f"{fsum(points) / len(points):.1f}") for group, points in sorted(groups.items())
    ]
    write_text(out / "tables/samples.md", _markdown(lines))
    write_text(out / "tables/samples.csv", _csv(lines))
    return len(rows), wrong


def _markdown(lines: list[tuple[Any, ...]]) -> str:
    body = ["| " + " | ".join(map(str, line)) + " |" for line in (HEAD, *lines)]
    return "\n".join([body[0], "|---|---:|---|---:|---:|", *body[1:]]) + "\n"


def _csv(lines: list[tuple[Any, ...]]) -> str:
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n").writerows([HEAD, *lines])
    return sink.getvalue()
