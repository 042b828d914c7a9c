"""``python -m workflow.jobs.ruler``: needle retrieval of every arm, one exact pass per sample."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ridgefill.errors import ConfigError
from ridgefill.settings import RulerSuite
from ridgefill.suites.documents import haystack
from ridgefill.suites.manifest import text_set
from ridgefill.suites.questions import question_set
from ridgefill.suites.ruler import RulerSample, generate, language_samples
from ridgefill.suites.ruler.official import load_official, official_path
from ridgefill.suites.userfiles import read_text
from ridgefill.suites.words import SOURCE as WORDS
from ridgefill.suites.words import load_words
from ridgefill.texts import SOURCES, find_source, load_sources
from workflow.jobs.common import Job, run_job
from workflow.jobs.memory import halving
from workflow.jobs.shards import Prepared, Suite, Tables, evaluate_suite, in_batches, items_of, parser

SAMPLES = "ruler/samples.parquet"
TIMINGS = "ruler/timings.parquet"
ARMS = "ruler/arms.parquet"
MEASURED = "ruler/measured.parquet"
TABLES = {"rows": SAMPLES, "timings": TIMINGS, "arms": ARMS, "measured": MEASURED}
SCHEMAS = {"rows": "ruler_samples", "timings": "timings", "arms": "arm_runs", "measured": "measured"}


def prepare(job: Job) -> Prepared:
    """Samples in the groups that are decoded as one batch, which the configuration alone decides."""
    from ridgefill.evaluation.questions import require_hidden, ruler_questions
    from ridgefill.evaluation.ruler import RulerRun, evaluate_samples, item_name, together
    from ridgefill.evaluation.runs import require_arms
    from workflow.jobs.evaluate import load_bench

    experiment, bench = job.experiment, load_bench(job)
    run = RulerRun(
        bench.loaded, bench.arms, bench.fitted, bench.geometry, experiment.tail, experiment.window,
        bench.seed_for, {**bench.labels, "source": experiment.suites.ruler.source}, {arm.order for arm in bench.arms},
    )  # fmt: skip
    sources = text_set(job.root / experiment.suites.documents.manifest).sources
    made = make_samples(experiment.suites.ruler, job.texts, bench.loaded.tokenizer, sources)
    require_arms(run)
    require_hidden(run.arms, ruler_questions(bench.loaded.tokenizer, made.samples))

    def rows(batch: RulerRun, group: Sequence[RulerSample]) -> Tables:
        results = evaluate_samples(batch, list(group))
        return {name: [row for one in results for row in getattr(one, name)] for name in TABLES}

    def fitting(group: Sequence[RulerSample], batch: RulerRun) -> Tables:
        return halving(partial(rows, batch), group, f"prompts from {item_name(group[0])} on")

    batches = in_batches(run, run.arms, experiment.arms_together)
    items = [
        item
        for group in together(batches[0], made.samples)
        for item in items_of(item_name(group[0]), partial(fitting, group), batches, len(group))
    ]
    said = f"ruler: {len(made.samples)} samples under {len(bench.arms)} arms"
    return Prepared(items, said, {"ruler_files": json.dumps(made.files, sort_keys=True)})


SUITE = Suite("ruler", "samples", TABLES, SCHEMAS, prepare)


def work(arguments: argparse.Namespace) -> str:
    """Evaluate every sample, or a shard's share; finished samples of an interrupted run are not computed again."""
    return evaluate_suite(SUITE, arguments)


@dataclass(frozen=True)
class Samples:
    """A suite's samples in length, task and sample order; files: SHA-256 (and name) of what was read for them."""

    samples: list[RulerSample]
    files: Mapping[str, Any]


def make_samples(suite: RulerSuite, texts: Path, tokenizer: Any, sources: Path = SOURCES) -> Samples:
    """Made here from the suite's parameters, or read from files that the official generator made."""
    if suite.source == "official":
        return _official(suite, Path(str(suite.official)))
    if suite.source == "hybrid-language":
        return Samples(in_language(suite), {})
    from ridgefill.evaluation.prompts import chat_overhead

    words = load_words(find_source(WORDS, load_sources(sources)), texts)
    files: dict[str, Any] = {}
    if suite.essays_text is not None:
        given = read_text(Path(suite.essays_text.path), suite.essays_text.sha256)
        essays, files["essays"] = given.text, given.sha256
    else:
        essays = "\n".join(haystack(*hay_of(suite), texts, sources).values())
    questions = {}
    for task, own in (("qa_1", suite.squad), ("qa_2", suite.hotpotqa)):
        if task in suite.tasks:
            found = question_set(task, *(() if own is None else (Path(own.path), own.sha256)))
            questions[task], files[task] = found, [found.name, found.sha256]
    samples = [
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
            questions=questions,
            chat_overhead=chat_overhead(tokenizer),
            new_tokens=suite.new_tokens,
        )
    ]
    return Samples(samples, files)


def in_language(suite: RulerSuite, room: int = 0) -> list[RulerSample]:
    """The suite's samples in the hybrids' language, ``room`` tokens shorter. Its seed is a number by now."""
    return [
        sample
        for length in suite.lengths
        for task in suite.tasks
        for sample in language_samples(task, length, suite.samples, int(suite.seed), room=room)
    ]


def hay_of(suite: RulerSuite) -> tuple[str, int, int]:
    """The haystack's source, and its first text and the one after its last. Raises ``ConfigError`` for none."""
    if suite.haystack is None or suite.essays is None:
        raise ConfigError(f"suites.ruler of source {suite.source} has no haystack; name one with its essays")
    return suite.haystack, *suite.essays


def _official(suite: RulerSuite, folder: Path) -> Samples:
    places = [(task, length) for length in suite.lengths for task in suite.tasks]
    read = [
        load_official(official_path(folder, task, length), task, length, suite.samples, new_tokens=suite.new_tokens)
        for task, length in places
    ]
    files = {f"official/{length}/{task}": one.sha256 for (task, length), one in zip(places, read, strict=True)}
    return Samples([sample for one in read for sample in one.samples], files)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
