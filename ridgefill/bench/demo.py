"""The share of a whole demo in which no model runs: starting, loading, drawing prompts, fitting, tables, the report."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from pathlib import Path
from subprocess import DEVNULL, PIPE, run
from tempfile import TemporaryDirectory
from time import monotonic

from ridgefill.bench.row import Row
from ridgefill.evaluation.model_time import ASKED, covered, read_spans

MOST_SHARE = 0.2
EXPERIMENT = "smollm2_split19"
PREPARED = ("models", "texts")
"""Folders that a demo fetches into first: taken from the checkout, as fetching says nothing of the pipeline."""


@dataclass(frozen=True)
class DemoSettings:
    """root: the checkout, whose last commit is run. experiment: what ``make demo`` runs. threads: Snakemake's cores."""

    root: Path
    experiment: str = EXPERIMENT
    threads: int = 2


def rows(settings: DemoSettings) -> Iterator[Row]:
    """One row, from one whole run in a fresh clone. It has no value where the run fails or its inputs are missing."""
    row = partial(
        Row,
        "demo_overhead",
        f"share of the wall time of a whole {settings.experiment} in which no model runs (its forward passes and its "
        "decoding), fetching left out",
        reference=1.0,
        target=MOST_SHARE,
        better="less",
    )
    missing = [name for name in PREPARED if not (settings.root / name).is_dir()]
    if missing:
        yield row(value=nan, limited=f"not measured: no folder {missing[0]}; run `make demo` first")
        return
    with TemporaryDirectory() as scratch:
        clone, times = Path(scratch) / "checkout", Path(scratch) / "times"
        failed = _prepared(settings, clone)
        begin = monotonic()
        failed = failed or _run(settings, clone, [f"results/{settings.experiment}"], {ASKED: str(times)})
        wall = monotonic() - begin
        if failed:
            yield row(value=nan, limited=f"not measured: {failed}")
            return
        model = covered(read_spans(times))
    limited = f"{wall:.0f} s in all, {model:.0f} s of them with a model running; else starting jobs, reports"
    yield row(value=1 - model / wall, limited=limited)


def _prepared(settings: DemoSettings, clone: Path) -> str:
    """Clone the checkout with what a demo would fetch; why that failed, or nothing."""
    command = ["git", "clone", "--quiet", str(settings.root.resolve()), str(clone)]
    done = run(command, check=False, stderr=PIPE, text=True)
    if done.returncode:
        return f"the checkout could not be cloned ({done.stderr.strip()})"
    for name in PREPARED:
        # Copies, not links: a run may write beside what it finds.
        shutil.copytree(settings.root / name, clone / name)
    fetched = [path.relative_to(clone) for path in (clone / "texts").glob("*.fetched")]
    models = [path.relative_to(clone) for path in (clone / "models").glob("*/ridgefill-model.json")]
    # A clone's files are newer than what was fetched, so Snakemake may want some of it again: before the clock runs.
    return _run(settings, clone, sorted(map(str, fetched + models)), {})


def _run(settings: DemoSettings, clone: Path, targets: Sequence[str], more: Mapping[str, str]) -> str:
    """Run Snakemake there, its progress on the terminal; why that failed, or nothing. more: environment variables."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    asked = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(clone), "PATH": path, **more}
    command = [sys.executable, "-m", "snakemake", "--cores", str(settings.threads), *targets]
    done = run(command, check=False, cwd=clone, env=asked, stdout=DEVNULL)
    return f"the run ended with {done.returncode}; run `make demo` to see why" if done.returncode else ""
