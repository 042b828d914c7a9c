"""``python -m workflow.jobs.longbench_v2``: LongBench v2 under every arm, reasoned and answered by sampling."""

from __future__ import annotations

import argparse
import hashlib
from functools import partial

from ridgefill.errors import ConfigError
from ridgefill.suites.longbench.inputs import read_v2_inputs, v2_files
from workflow.jobs.common import job_from, parser, run_job
from workflow.jobs.longbench import evaluate


def work(arguments: argparse.Namespace) -> str:
    """Evaluate every item; finished items of an interrupted run are not computed again."""
    job = job_from(arguments)
    suite = job.experiment.suites.longbench_v2
    if suite is None:
        raise ConfigError(f"{job.name} has no suite longbench_v2; add it to the experiment")
    inputs = read_v2_inputs(suite, job.root)
    from ridgefill.evaluation.longbench_v2 import evaluate_v2

    setup = {"budget": suite.budget, "labels": {"source": inputs.templates.source}}
    # An id is the user's text, and finished items are files.
    items = [
        (hashlib.sha256(item.id.encode()).hexdigest()[:16], partial(evaluate_v2, item=item, templates=inputs.templates))
        for item in inputs.items
    ]
    files = [job.root / path for path in v2_files(suite).values()]
    return evaluate(job, "longbench_v2", files, inputs.hashes, setup, items)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
