"""``python -m workflow.jobs.longbench_v1``: LongBench v1 under every arm, greedy."""

from __future__ import annotations

import argparse
from functools import partial

from ridgefill.errors import ConfigError
from ridgefill.suites.longbench.inputs import read_v1_inputs, segmenter, v1_files
from workflow.jobs.common import job_from, parser, run_job
from workflow.jobs.longbench import evaluate


def work(arguments: argparse.Namespace) -> str:
    """Evaluate every item; finished items of an interrupted run are not computed again."""
    job = job_from(arguments)
    suite = job.experiment.suites.longbench_v1
    if suite is None:
        raise ConfigError(f"{job.name} has no suite longbench_v1; add it to the experiment")
    inputs, segment = read_v1_inputs(suite, job.root), segmenter(suite)
    from ridgefill.evaluation.longbench import evaluate_v1

    setup = {"budget": suite.budget, "segment": segment, "labels": {"source": inputs.templates.source}}
    items = [(item.name, partial(evaluate_v1, item=item, templates=inputs.templates)) for item in inputs.items]
    files = [job.root / path for path in v1_files(suite).values()]
    return evaluate(job, "longbench_v1", files, inputs.hashes, setup, items)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
