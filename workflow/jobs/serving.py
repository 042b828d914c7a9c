"""``python -m workflow.jobs.serving``: one long prefill among decoding users, every arm in turn with exact.

A run that is interrupted begins again: runs timed in another process would not be comparable.
"""

from __future__ import annotations

import argparse
from typing import Any

from ridgefill.errors import ConfigError
from ridgefill.progress import progress
from ridgefill.results import write_table
from workflow.jobs.common import job_from, parser, run_job
from workflow.jobs.timing import arms_to_time, document_texts, manifest_of

RUNS = "serving/runs.parquet"


def work(arguments: argparse.Namespace) -> str:
    """Serve every arm at every length; all runs in one process."""
    job = job_from(arguments)
    from ridgefill.evaluation.clocks import device_clock
    from ridgefill.evaluation.requests import make_requests
    from ridgefill.evaluation.runs import require_arms
    from ridgefill.evaluation.serving import ServingRun, requests_needed, serve_arm, unserved
    from workflow.jobs.evaluate import fitted_inputs, load_bench

    experiment, suite = job.experiment, job.experiment.suites.serving
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite serving; add suites.serving to its file")
    with job.attempt("serving", [*fitted_inputs(job), manifest_of(job)]) as attempt:
        bench = load_bench(job)
        arms = arms_to_time(job, bench, suite.arms, unserved(bench.loaded.adapter))
        count = requests_needed(suite, len(arms))
        requests = make_requests(
            bench.loaded.tokenizer, document_texts(job), count, bench.seed_for("serving"), bench.fitted.frequencies
        )
        run = ServingRun(
            bench.loaded, arms, bench.fitted, bench.geometry, experiment.tail, experiment.window, suite, requests,
            bench.labels,
        )  # fmt: skip
        require_arms(run)
        clock = device_clock(bench.loaded.adapter.device)
        cells = [(length, arm) for length in suite.lengths for arm in arms]
        rows: list[dict[str, Any]] = []
        with progress((suite.repeats + 1) * len(cells), "serving", "pairs") as bar:
            for place, (length, arm) in enumerate(cells):
                rows += serve_arm(run, arm, length, place * count // len(cells), clock, lambda: bar.update(1))
        write_table(job.out / RUNS, "serving", rows, job.metadata(attempt))
        attempt.finish([RUNS], job.out, published=[RUNS])
    return f"serving: {len(arms)} arms at {len(suite.lengths)} lengths among {suite.users} users"


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
