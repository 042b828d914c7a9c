"""What the two LongBench jobs share: the run, an item for each of the user's items, and the file that comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workflow.jobs.common import Job
from workflow.jobs.shards import Prepared, Suite, Tables, in_batches, items_of

if TYPE_CHECKING:
    from ridgefill.evaluation.longbench import LongBenchRun
    from ridgefill.evaluation.questions import Asked

Row = dict[str, Any]


@dataclass(frozen=True)
class Given:
    """What the user's files give a suite.

    files: where they are. hashes: of what they hold, for the file's metadata. setup: fields of ``LongBenchRun`` that
    are the suite's. items: name of each, a file's name too, and what it gives for a run. asked: its prompts, of a run.
    """

    files: Sequence[Path]
    hashes: Mapping[str, str]
    setup: Mapping[str, Any]
    items: Sequence[tuple[str, Callable[[Any], list[Row]]]]
    asked: Callable[[LongBenchRun], Iterable[Asked]]


def longbench_suite(name: str, read: Callable[[Job], Given]) -> Suite:
    """The suite ``name`` over what ``read`` gives; its errors come before a run begins, and are those of the user's
    files and of an experiment without the suite."""
    return Suite(
        name,
        "items",
        {"rows": f"{name}/samples.parquet"},
        {"rows": f"{name}_samples"},
        partial(_prepare, name, read),
        lambda job: read(job).files,
    )


def _prepare(name: str, read: Callable[[Job], Given], job: Job) -> Prepared:
    """The exact arm runs whichever arms the suite names."""
    from ridgefill.evaluation.longbench import LongBenchRun
    from ridgefill.evaluation.questions import require_hidden
    from ridgefill.evaluation.runs import require_arms
    from workflow.jobs.evaluate import load_bench

    experiment, given, bench = job.experiment, read(job), load_bench(job)
    wanted = getattr(experiment.suites, name).arms
    arms = [arm for arm in bench.arms if wanted is None or arm.split is None or arm.name in wanted]
    run = LongBenchRun(
        bench.loaded, arms, bench.fitted, bench.geometry, experiment.tail, experiment.window,
        context=job.model.geometry.context, seed_for=bench.seed_for,
        **{**given.setup, "labels": {**bench.labels, **given.setup["labels"]}},
    )  # fmt: skip
    require_arms(run)
    require_hidden(run.given, given.asked(run))

    def rows(made: Callable[[Any], list[Row]], batch: LongBenchRun) -> Tables:
        return {"rows": made(batch)}

    batches = in_batches(run, run.given, experiment.arms_together)
    items = [item for one, made in given.items for item in items_of(one, partial(rows, made), batches)]
    said = f"{name}: {len(given.items)} items under {len(run.given)} arms"
    return Prepared(items, said, {f"{name}_files": json.dumps(dict(given.hashes), sort_keys=True)})
