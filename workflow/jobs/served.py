"""``python -m workflow.jobs.served``: the plugin in vLLM's own server, measured at the client beside the stock server.

A run that is interrupted begins again: requests to servers of another start would not be comparable.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from ledger.seeds import run_seed
from ridgefill.arms import Arm
from ridgefill.config import cost_geometry, experiment_arms
from ridgefill.errors import ConfigError
from ridgefill.fitted_names import maps_name
from ridgefill.progress import progress
from ridgefill.results import write_table
from ridgefill.served.measuring import (
    SHORT_BESIDE_LONG,
    Measured,
    among_users,
    first_tokens,
    pairs_planned,
    prompts_needed,
    require_filled,
    too_short,
)
from ridgefill.served.server import Served, require_engine, running
from ridgefill.suite_settings import ServedSuite
from workflow.jobs.common import Job, job_from, parser, run_job
from workflow.jobs.timing import document_texts, manifest_of

REQUESTS, RUNS, PAIRS = "served/requests.parquet", "served/runs.parquet", "served/pairs.parquet"
LONGER = 16
"""Tokens that a server takes beyond the model's context, for what follows a prompt that fills it."""


def work(arguments: argparse.Namespace) -> str:
    """Start a server that fills and a stock one, and measure them."""
    job = job_from(arguments)
    suite = job.experiment.suites.served
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite served; add suites.served to its file")
    arm, split = served_arm(job, suite)
    require_engine(job.root)
    from workflow.jobs.evaluate import fitted_inputs

    with job.attempt("served", [*fitted_inputs(job), manifest_of(job)]) as attempt, ExitStack() as stack:
        bar = stack.enter_context(progress(pairs_planned(suite), "served", "pairs"))
        labels = {
            "experiment": job.name,
            "model": job.model.name,
            "device": "cpu",
            "threads": min(job.threads, len(os.sched_getaffinity(0))),
            "dtype": suite.dtype,
        }
        run = Measured(
            suite, arm.name, split, arm.tail, arm.split_layer == "mapped", cost_geometry(job.model),
            _prompts(job, suite), labels, lambda: bar.update(1),
        )  # fmt: skip
        tables = _measured(job, run, arm)
        for file, schema in ((REQUESTS, "speed"), (RUNS, "serving"), (PAIRS, "served_pairs")):
            write_table(job.out / file, schema, tables[file], job.metadata(attempt))
        attempt.finish([REQUESTS, RUNS, PAIRS], job.out, published=[REQUESTS, RUNS, PAIRS])
    return f"served: arm {arm.name} at {len(suite.lengths)} lengths, among {suite.users} users, beside the stock server"


def served_arm(job: Job, suite: ServedSuite) -> tuple[Arm, int]:
    """The arm that the server fills by, and its split. Raises ``ConfigError`` for one that the plugin does not have."""
    known = {arm.name: arm for arm in reversed(experiment_arms(job.experiment, job.model.geometry.layers))}
    arm = known[suite.arm]
    more = (arm.rows, arm.matched, arm.rescale, arm.splice, arm.state_correction, arm.longer, arm.maps.rank)
    if arm.split is None or arm.fill != "ridge" or any(more) or arm.order != "given":
        raise ConfigError(
            f"suites.served.arm is {suite.arm}, which the server's plugin does not have; expected an arm that fills by "
            "full maps, with a tail alone and no corrections"
        )
    return arm, arm.split


def _measured(job: Job, run: Measured, arm: Arm) -> dict[str, list[dict[str, Any]]]:
    """Rows of all tables. The stock server is ended before long prompts are timed, so that nothing is beside them."""
    suite = run.suite
    maps = job.out / "maps" / maps_name(run.split, arm.maps)
    common = {
        "root": job.root,
        "model": job.model_folder,
        "dtype": suite.dtype,
        "context": job.model.geometry.context + LONGER,
        "chunk": suite.chunk,
        "requests": 1 + max(suite.users, suite.short.burst, SHORT_BESIDE_LONG),
        "threads": int(run.labels["threads"]),
    }
    filling = {
        "maps": str(maps.absolute()),
        "tail": run.tail,
        "min_filled": suite.min_filled,
        "split_layer": arm.split_layer,
    }
    logs = (job.out / "served").absolute()
    with running(Served(**common, log=logs / "filling.log", filling=filling)) as server:
        with running(Served(**common, log=logs / "stock.log")) as stock:
            pairs = list(too_short(run, server, stock))
        found = {PAIRS: pairs, REQUESTS: list(first_tokens(run, server)), RUNS: list(among_users(run, server))}
        require_filled(run, server)
    return found


def _prompts(job: Job, suite: ServedSuite) -> Any:
    """Stretches of the experiment's documents, each another one."""
    from transformers import AutoTokenizer

    from ridgefill.evaluation.requests import make_requests

    count = prompts_needed(suite)
    tokenizer = AutoTokenizer.from_pretrained(job.model_folder)
    seed = run_seed(job.registration.leaf, "served")
    requests = make_requests(tokenizer, document_texts(job), count, seed)
    numbers: Iterator[int] = iter(range(count))

    def prompt(tokens: int) -> Sequence[int]:
        return requests.context([], next(numbers), tokens).ids

    return prompt


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
