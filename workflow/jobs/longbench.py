"""What the two LongBench jobs share: the run, finished items, and the file that comes out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgefill.progress import progress
from ridgefill.results import write_table
from workflow.jobs.common import Job

Row = dict[str, Any]


def evaluate(
    job: Job,
    name: str,
    files: Sequence[Path],
    hashes: Mapping[str, str],
    setup: Mapping[str, Any],
    items: Sequence[tuple[str, Callable[[Any], list[Row]]]],
) -> str:
    """Evaluate the suite ``name``; finished items of an interrupted run are not computed again.

    files: the user's. hashes: of what they hold, for the file's metadata. setup: fields of ``LongBenchRun`` that are
    the suite's. items: name of each and what it gives for a run. The exact arm runs whichever arms the suite names.
    """
    from ridgefill.evaluation.longbench import LongBenchRun
    from ridgefill.evaluation.runs import require_arms
    from workflow.jobs.evaluate import fitted_inputs, load_bench, open_parts

    inputs, experiment = [*fitted_inputs(job), *files], job.experiment
    wanted = getattr(experiment.suites, name).arms
    samples = f"{name}/samples.parquet"
    with job.attempt(name, inputs) as attempt:
        bench = load_bench(job)
        arms = [arm for arm in bench.arms if wanted is None or arm.split is None or arm.name in wanted]
        run = LongBenchRun(
            bench.loaded, arms, bench.fitted, bench.geometry, experiment.tail, experiment.window,
            context=job.model.geometry.context, seed_for=bench.seed_for,
            **{**setup, "labels": {**bench.labels, **setup["labels"]}},
        )  # fmt: skip
        require_arms(run)
        parts, rows = open_parts(job, name, inputs), []
        with progress(len(items), name, "items") as bar:
            for item, made in items:
                done = parts.get(item)
                if done is None:
                    done = {"rows": made(run)}
                    parts.put(item, done)
                rows += done["rows"]
                bar.update(1)
        metadata = {**job.metadata(attempt), f"{name}_files": json.dumps(dict(hashes), sort_keys=True)}
        write_table(job.out / samples, f"{name}_samples", rows, metadata)
        attempt.finish([samples], job.out, published=[samples])
    shutil.rmtree(parts.folder, ignore_errors=True)
    return f"{name}: {len(items)} items under {len(run.given)} arms"
