"""``python -m workflow.jobs.longbench_v2``: LongBench v2 under every arm, reasoned and answered by sampling."""

from __future__ import annotations

import argparse
import hashlib
from functools import partial

from ridgefill.errors import ConfigError
from ridgefill.suites.longbench.inputs import read_v2_inputs, v2_files
from workflow.jobs.common import Job, run_job
from workflow.jobs.longbench import Given, longbench_suite
from workflow.jobs.shards import evaluate_suite, parser


def read(job: Job) -> Given:
    """The file's items. Raises ``ConfigError`` and ``TextError`` for files that the suite cannot use."""
    suite = job.experiment.suites.longbench_v2
    if suite is None:
        raise ConfigError(f"{job.name} has no suite longbench_v2; add it to the experiment")
    inputs = read_v2_inputs(suite, job.root)
    from ridgefill.evaluation.longbench_v2 import evaluate_v2
    from ridgefill.evaluation.questions import v2_questions

    # An id is the user's text, and finished items are files.
    names = [hashlib.sha256(item.id.encode()).hexdigest()[:16] for item in inputs.items]
    return Given(
        [job.root / path for path in v2_files(suite).values()],
        inputs.hashes,
        {"budget": suite.budget, "labels": {"source": inputs.templates.source}},
        [
            (name, partial(evaluate_v2, item=item, templates=inputs.templates))
            for name, item in zip(names, inputs.items, strict=True)
        ],
        partial(v2_questions, items=inputs.items, templates=inputs.templates),
    )


SUITE = longbench_suite("longbench_v2", read)


def work(arguments: argparse.Namespace) -> str:
    """Evaluate every item, or a shard's share; finished items of an interrupted run are not computed again."""
    return evaluate_suite(SUITE, arguments)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
