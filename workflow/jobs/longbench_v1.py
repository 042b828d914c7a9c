"""``python -m workflow.jobs.longbench_v1``: LongBench v1 under every arm, greedy."""

from __future__ import annotations

import argparse
from functools import partial

from ridgefill.errors import ConfigError
from ridgefill.suites.longbench.inputs import read_v1_inputs, segmenter, v1_files
from workflow.jobs.common import Job, run_job
from workflow.jobs.longbench import Given, longbench_suite
from workflow.jobs.shards import evaluate_suite, parser


def read(job: Job) -> Given:
    """The datasets' items. Raises ``ConfigError`` and ``TextError`` for files that the suite cannot use."""
    suite = job.experiment.suites.longbench_v1
    if suite is None:
        raise ConfigError(f"{job.name} has no suite longbench_v1; add it to the experiment")
    inputs, segment = read_v1_inputs(suite, job.root), segmenter(suite)
    from ridgefill.evaluation.longbench import evaluate_v1
    from ridgefill.evaluation.questions import v1_questions

    return Given(
        [job.root / path for path in v1_files(suite).values()],
        inputs.hashes,
        {"budget": suite.budget, "segment": segment, "labels": {"source": inputs.templates.source}},
        [(item.name, partial(evaluate_v1, item=item, templates=inputs.templates)) for item in inputs.items],
        partial(v1_questions, items=inputs.items, templates=inputs.templates),
    )


SUITE = longbench_suite("longbench_v1", read)


def work(arguments: argparse.Namespace) -> str:
    """Evaluate every item, or a shard's share; finished items of an interrupted run are not computed again."""
    return evaluate_suite(SUITE, arguments)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
