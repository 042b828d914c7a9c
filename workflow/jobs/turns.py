"""``python -m workflow.jobs.turns``: a second question asked of every arm's cache, which was filled for the first."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ridgefill.errors import ConfigError
from ridgefill.progress import progress
from ridgefill.results import write_table
from ridgefill.settings import RulerSuite
from ridgefill.suite_settings import SECOND_QUESTION, TurnsSuite
from ridgefill.suites.manifest import text_set
from ridgefill.suites.turns import TASK, TurnSample, second_turn
from workflow.jobs.agreement import suite_arms
from workflow.jobs.common import Job, job_from, parser, run_job
from workflow.jobs.ruler import make_samples

SAMPLES = "turns/samples.parquet"


def work(arguments: argparse.Namespace) -> str:
    """Ask twice about every sample; finished samples of an interrupted run are not computed again."""
    job = job_from(arguments)
    from ridgefill.evaluation.ruler import RulerRun, item_name
    from ridgefill.evaluation.runs import require_arms
    from ridgefill.evaluation.turns import evaluate_turns
    from workflow.jobs.evaluate import fitted_inputs, load_bench, open_parts

    experiment, suite = job.experiment, job.experiment.suites.turns
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite turns; add suites.turns to its file")
    inputs = fitted_inputs(job)
    with job.attempt("turns", inputs) as attempt:
        bench = load_bench(job)
        run = RulerRun(
            bench.loaded, suite_arms(job, bench, suite.arms), bench.fitted, bench.geometry, experiment.tail,
            experiment.window, bench.seed_for, {**bench.labels, "source": "ruler-style"},
        )  # fmt: skip
        samples, files = make_turns(job, suite, bench.loaded.tokenizer, bench.seed_for("turns"))
        parts = open_parts(job, "turns", inputs)
        require_arms(run)
        rows: list[dict[str, Any]] = []
        with progress(len(samples), "turns", "samples") as bar:
            for sample in samples:
                item = item_name(sample.first)
                done = parts.get(item)
                if done is None:
                    done = {"rows": evaluate_turns(run, sample)}
                    parts.put(item, done)
                rows += done["rows"]
                bar.update(1)
        metadata = {**job.metadata(attempt), "ruler_files": json.dumps(files, sort_keys=True)}
        write_table(job.out / SAMPLES, "turn_samples", rows, metadata)
        attempt.finish([SAMPLES], job.out, published=[SAMPLES])
    shutil.rmtree(parts.folder, ignore_errors=True)
    return f"turns: {len(samples)} samples under {len(run.arms)} arms"


def make_turns(job: Job, suite: TurnsSuite, tokenizer: Any, seed: int) -> tuple[list[TurnSample], Mapping[str, Any]]:
    """The suite's samples in length and sample order, and the user's files that were read for their haystack.

    Made as the retrieval suite makes its own, shorter by what a second turn needs.
    """
    ruler = job.experiment.suites.ruler
    made_as: RulerSuite = ruler.model_copy(
        update={
            "source": "ruler-style",
            "tasks": (TASK,),
            "lengths": suite.lengths,
            "samples": suite.samples,
            "new_tokens": 2 * suite.new_tokens + SECOND_QUESTION,
        }
    )
    sources = text_set(job.root / job.experiment.suites.documents.manifest).sources
    made = make_samples(made_as, job.texts, tokenizer, sources)
    samples = [second_turn(replace(one, new_tokens=suite.new_tokens), seed) for one in made.samples]
    return samples, made.files


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
