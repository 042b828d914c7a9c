"""``python -m workflow.jobs.bench``: time to first token, filled against stock prefill, alternating in one process."""

from __future__ import annotations

import argparse
import json
import sys
from statistics import median
from typing import Any

from ridgefill.cost import ceiling
from ridgefill.progress import progress
from workflow.jobs.common import Job, job_from, parser, run_job

LENGTHS = (1024, 2048, 4096)
REPEATS = 5
# The share of the ceiling that the paper's two serving engines reach (sections 4.4 and 5).
REFERENCE_SHARE = 0.74


def work(arguments: argparse.Namespace) -> str:
    """Print what limits the speed-up, a table, and one JSON line last. Absolute times are this machine's own."""
    job = job_from(arguments)
    import torch

    torch.set_num_threads(job.threads)
    rows = [_measure(job, length) for length in LENGTHS]
    out = sys.stdout.write
    out(
        "\nLimited by arithmetic: the ceiling is what skipping multiply-accumulates alone could give "
        "(cost model); the rest is memory traffic, masks and Python.\n\n"
    )
    out(f"{'tokens':>7} {'stock s':>9} {'filled s':>9} {'speed-up':>9} {'ceiling':>8} {'of it':>6}\n")
    for row in rows:
        out(
            f"{row['tokens']:>7} {row['stock_seconds']:>9.2f} {row['filled_seconds']:>9.2f} {row['value']:>9.2f} "
            f"{row['reference']:>8.2f} {row['value'] / row['reference']:>6.0%}\n"
        )
    keys = ("name", "value", "reference", "target", "met")
    out(f"\n{REPEATS} alternating pairs a length, medians; {job.threads} threads\n")
    out(json.dumps({"rows": [{key: row[key] for key in keys} for row in rows]}) + "\n")
    return ""  # the JSON line is the last word


def _measure(job: Job, length: int) -> dict[str, Any]:
    import torch

    from ridgefill.evaluation.clocks import device_clock
    from ridgefill.evaluation.speed import SpeedRun, time_arm
    from ridgefill.selectors.context import Context
    from workflow.jobs.evaluate import load_bench

    bench, experiment = load_bench(job), job.experiment
    arm = next(one for one in bench.arms if one.name == "ridgefill" and one.split == experiment.split)
    run = SpeedRun(
        bench.loaded, [arm], bench.fitted, bench.geometry, experiment.tail, experiment.window, REPEATS, bench.labels
    )
    generator = torch.Generator().manual_seed(length)

    def another(_: int) -> Context:
        # Another prompt for each pair: nothing may be reused between requests.
        return Context(tuple(torch.randint(5, job.model.geometry.vocab, (length,), generator=generator).tolist()), 0)

    clock = device_clock(bench.loaded.adapter.device)
    with progress(REPEATS + 1, f"{length}", "pairs") as bar:
        rows = time_arm(run, arm, another, clock, lambda: bar.update(1))
    stock, filled = (median(row[side] for row in rows) for side in ("exact_seconds", "seconds"))
    limit = ceiling(rows[-1]["macs"] / rows[-1]["exact_macs"])
    return {
        "name": f"ttft_speedup_{length}",
        "tokens": length,
        "stock_seconds": stock,
        "filled_seconds": filled,
        "value": stock / filled,
        "reference": limit,
        "target": REFERENCE_SHARE * limit,
        "met": stock / filled >= REFERENCE_SHARE * limit,
    }


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
