"""``python -m workflow.jobs.ruler``: needle retrieval of every arm, one exact pass per sample."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from ridgefill.progress import progress
from ridgefill.results import write_table
from ridgefill.settings import RulerSuite
from ridgefill.suites.documents import haystack
from ridgefill.suites.ruler import RulerSample, generate
from ridgefill.suites.words import SOURCE as WORDS
from ridgefill.suites.words import load_words
from ridgefill.texts import find_source, load_sources
from workflow.jobs.common import job_from, parser, run_job

SAMPLES = "ruler/samples.parquet"
TIMINGS = "ruler/timings.parquet"


def work(arguments: argparse.Namespace) -> str:
    """Evaluate every sample; finished samples of an interrupted run are not computed again."""
    job = job_from(arguments)
    from ridgefill.evaluation.ruler import RulerRun, evaluate_samples, item_name, together
    from workflow.jobs.evaluate import load_bench, maps_inputs, open_parts

    experiment = job.experiment
    inputs = maps_inputs(job)
    with job.attempt("ruler", inputs) as attempt:
        bench = load_bench(job)
        run = RulerRun(
            bench.loaded, bench.arms, bench.maps, bench.geometry, experiment.tail, experiment.window,
            bench.seed_for, {**bench.labels, "source": experiment.suites.ruler.source},
        )  # fmt: skip
        samples = make_samples(experiment.suites.ruler, job.texts, bench.loaded.tokenizer)
        parts = open_parts(job, "ruler", inputs)
        rows: list[dict[str, Any]] = []
        timings: list[dict[str, Any]] = []
        with progress(len(samples), "ruler", "samples") as bar:
            for group in together(run, samples):
                item = item_name(group[0])
                done = parts.get(item)
                if done is None:
                    made = evaluate_samples(run, group)
                    done = {
                        "rows": [row for one in made for row in one[0]],
                        "timings": [t for one in made for t in one[1]],
                    }
                    parts.put(item, done)
                rows += done["rows"]
                timings += done["timings"]
                bar.update(len(group))
        metadata = job.metadata(attempt)
        write_table(job.out / SAMPLES, "ruler_samples", rows, metadata)
        write_table(job.out / TIMINGS, "timings", timings, metadata)
        attempt.finish([SAMPLES, TIMINGS], job.out, published=[SAMPLES, TIMINGS])
    shutil.rmtree(parts.folder, ignore_errors=True)
    return f"ruler: {len(samples)} samples under {len(bench.arms)} arms"


def make_samples(suite: RulerSuite, texts: Path, tokenizer: Any) -> list[RulerSample]:
    """The suite's samples, in length, task and sample order."""
    from ridgefill.evaluation.prompts import chat_overhead

    words = load_words(find_source(WORDS, load_sources()), texts)
    essays = "\n".join(haystack(suite.haystack, *suite.essays, texts).values())
    return [
        sample
        for length in suite.lengths
        for task in suite.tasks
        for sample in generate(
            task,
            length,
            suite.samples,
            suite.seed,
            tokenize=lambda text: tokenizer(text, add_special_tokens=False)["input_ids"],
            words=words,
            essays=essays,
            chat_overhead=chat_overhead(tokenizer),
            new_tokens=suite.new_tokens,
        )
    ]


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
