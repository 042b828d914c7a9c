"""``python -m workflow.jobs.turns``: a second question asked of every arm's cache, which was filled for the first."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgefill.errors import ConfigError
from ridgefill.settings import RulerSuite
from ridgefill.suite_settings import SECOND_QUESTION, TurnsSuite
from ridgefill.suites.manifest import text_set
from ridgefill.suites.ruler.language import TWO_QUESTIONS
from ridgefill.suites.turns import TASK, TurnSample, second_in_language, second_turn
from workflow.jobs.agreement import suite_arms
from workflow.jobs.common import Job, run_job
from workflow.jobs.ruler import in_language, make_samples
from workflow.jobs.shards import Prepared, Suite, Tables, evaluate_suite, in_batches, items_of, parser

if TYPE_CHECKING:
    from ridgefill.evaluation.ruler import RulerRun

SAMPLES = "turns/samples.parquet"


def prepare(job: Job) -> Prepared:
    """Each sample by itself: both of its questions."""
    from ridgefill.evaluation.questions import require_hidden, ruler_questions
    from ridgefill.evaluation.ruler import RulerRun, item_name
    from ridgefill.evaluation.runs import require_arms
    from ridgefill.evaluation.turns import evaluate_turns
    from workflow.jobs.evaluate import load_bench

    experiment, suite, bench = job.experiment, settings(job), load_bench(job)
    arms = suite_arms(job, bench, suite.arms)
    run = RulerRun(
        bench.loaded, arms, bench.fitted, bench.geometry, experiment.tail, experiment.window,
        bench.seed_for, {**bench.labels, "source": made_as(job, suite).source}, {arm.order for arm in arms},
    )  # fmt: skip
    samples, files = make_turns(job, suite, bench.loaded.tokenizer, bench.seed_for("turns"))
    require_arms(run)
    require_hidden(arms, ruler_questions(bench.loaded.tokenizer, [sample.first for sample in samples]))

    def rows(sample: TurnSample, batch: RulerRun) -> Tables:
        return {"rows": evaluate_turns(batch, sample)}

    batches = in_batches(run, arms, experiment.arms_together)
    items = [item for sample in samples for item in items_of(item_name(sample.first), partial(rows, sample), batches)]
    said = f"turns: {len(samples)} samples under {len(arms)} arms"
    return Prepared(items, said, {"ruler_files": json.dumps(files, sort_keys=True)})


def settings(job: Job) -> TurnsSuite:
    """The suite as the experiment has it. Raises ``ConfigError`` when it has none."""
    suite = job.experiment.suites.turns
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite turns; add suites.turns to its file")
    return suite


def make_turns(job: Job, suite: TurnsSuite, tokenizer: Any, seed: int) -> tuple[list[TurnSample], Mapping[str, Any]]:
    """The suite's samples in length and sample order, and the user's files that were read for their haystack.

    Made as the retrieval suite makes its own, shorter by what a second turn needs.
    """
    ruler = made_as(job, suite)
    if ruler.source == "hybrid-language":
        first = in_language(ruler, room=2 * suite.new_tokens + SECOND_QUESTION)
        return [second_in_language(replace(one, new_tokens=suite.new_tokens), seed) for one in first], {}
    sources = text_set(job.root / job.experiment.suites.documents.manifest).sources
    made = make_samples(ruler, job.texts, tokenizer, sources)
    samples = [second_turn(replace(one, new_tokens=suite.new_tokens), seed) for one in made.samples]
    return samples, made.files


def made_as(job: Job, suite: TurnsSuite) -> RulerSuite:
    """The settings of a retrieval suite whose samples are the first turns; in the hybrids' language where that is used.

    Official samples are never asked twice: ours take their place.
    """
    ruler = job.experiment.suites.ruler
    language = ruler.source == "hybrid-language"
    made: RulerSuite = ruler.model_copy(
        update={
            "source": "hybrid-language" if language else "ruler-style",
            "tasks": (TWO_QUESTIONS if language else TASK,),
            "lengths": suite.lengths,
            "samples": suite.samples,
            "new_tokens": 2 * suite.new_tokens + SECOND_QUESTION,
        }
    )
    return made


def reads(job: Job) -> list[Path]:
    """No further files. Raises ``ConfigError`` for an experiment without the suite, before anything begins."""
    settings(job)
    return []


SUITE = Suite("turns", "samples", {"rows": SAMPLES}, {"rows": "turn_samples"}, prepare, reads)


def work(arguments: argparse.Namespace) -> str:
    """Ask twice about every sample, or a shard's share; finished samples of an interrupted run are not asked again."""
    return evaluate_suite(SUITE, arguments)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
