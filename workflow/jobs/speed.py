"""``python -m workflow.jobs.speed``: time to first token of every arm, in turn with exact, warm, in this process.

A run that is interrupted begins again: requests timed in another process would not be comparable.
"""

from __future__ import annotations

import argparse
from typing import Any

from ridgefill.errors import ConfigError
from ridgefill.progress import progress
from ridgefill.results import write_table
from workflow.jobs.common import job_from, parser, run_job
from workflow.jobs.timing import arms_to_time, document_texts, manifest_of

REQUESTS = "speed/requests.parquet"


def work(arguments: argparse.Namespace) -> str:
    """Time every arm at every length; all requests of the run in one process."""
    job = job_from(arguments)
    from ridgefill.evaluation.clocks import device_clock
    from ridgefill.evaluation.requests import make_requests
    from ridgefill.evaluation.runs import require_arms
    from ridgefill.evaluation.speed import SpeedRun, require_stock, time_arm, untimed
    from workflow.jobs.evaluate import fitted_inputs, load_bench

    experiment, suite = job.experiment, job.experiment.suites.speed
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite speed; add suites.speed to its file")
    with job.attempt("speed", [*fitted_inputs(job), manifest_of(job)]) as attempt:
        bench = load_bench(job)
        require_stock(bench.loaded.adapter)
        arms = arms_to_time(job, bench, suite.arms, untimed)
        run = SpeedRun(
            bench.loaded, arms, bench.fitted, bench.geometry, experiment.tail, experiment.window, suite.repeats,
            bench.labels,
        )  # fmt: skip
        require_arms(run)
        pairs = suite.repeats + 1
        total = pairs * len(arms) * len(suite.lengths)
        requests = make_requests(
            bench.loaded.tokenizer, document_texts(job), total, bench.seed_for("speed"), bench.fitted.frequencies
        )
        clock = device_clock(bench.loaded.adapter.device)
        rows: list[dict[str, Any]] = []
        with progress(total, "speed", "pairs") as bar:
            for place, (length, arm) in enumerate((length, arm) for length in suite.lengths for arm in arms):

                def context(number: int, first: int = place * pairs, arm: Any = arm, length: int = length) -> Any:
                    return requests.context([arm], first + number, length)

                rows += time_arm(run, arm, context, clock, lambda: bar.update(1))
        write_table(job.out / REQUESTS, "speed", rows, job.metadata(attempt))
        attempt.finish([REQUESTS], job.out, published=[REQUESTS])
    return f"speed: {len(arms)} arms at {len(suite.lengths)} lengths, {suite.repeats} requests each beside exact"


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
