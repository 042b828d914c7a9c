"""``python -m workflow.jobs.bench``: time to first token, filled against stock prefill, alternating in one process."""

from __future__ import annotations

import argparse
import json
import sys
from statistics import median
from time import perf_counter
from typing import Any

from ridgefill.cost import ceiling, exact_macs
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

    from ridgefill.fill import predictor, run_late
    from ridgefill.passes import run_lower
    from ridgefill.rows import plan_macs, plan_rows
    from workflow.jobs.evaluate import load_bench

    bench = load_bench(job)
    adapter = bench.loaded.adapter
    arm = next(one for one in bench.arms if one.name == "ridgefill" and one.split == job.experiment.split)
    generator = torch.Generator().manual_seed(length)
    vocabulary = job.model.geometry.vocab
    times: dict[str, list[float]] = {"stock": [], "filled": []}
    macs = 0
    with torch.inference_mode(), progress(REPEATS + 1, f"{length}", "pairs") as bar:
        for repeat in range(REPEATS + 1):
            # Another prompt for each pair: nothing may be reused between requests. The first pair warms up.
            ids = torch.randint(5, vocabulary, (1, length), generator=generator)
            begin = perf_counter()
            adapter.model(ids, use_cache=True, logits_to_keep=1)  # type: ignore[attr-defined]
            middle = perf_counter()
            lower = run_lower(adapter, ids, job.experiment.split, window=job.experiment.window)
            plan = plan_rows(arm, adapter, lower, bench.geometry, seed=0)
            done = run_late(adapter, lower, plan, predictor(arm, bench.maps, adapter), arm)
            adapter.logits(done.hidden[:, -1:])
            end = perf_counter()
            macs = plan_macs(arm, plan, length, bench.geometry)
            if repeat:
                times["stock"].append(middle - begin)
                times["filled"].append(end - middle)
            bar.update(1)
    stock, filled = median(times["stock"]), median(times["filled"])
    limit = ceiling(macs / exact_macs(bench.geometry, length))
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
