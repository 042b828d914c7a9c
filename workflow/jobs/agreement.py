"""``python -m workflow.jobs.agreement``: how closely every arm follows the exact arm after documents' prompts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.suite_settings import AgreementSuite
from ridgefill.suites.balance import balanced
from ridgefill.suites.documents import load, load_manifest, select, text_set
from ridgefill.suites.manifest import Document
from ridgefill.texts import load_sources
from workflow.jobs.common import Job, run_job
from workflow.jobs.shards import Prepared, Suite, Tables, evaluate_suite, in_batches, items_of, parser

if TYPE_CHECKING:
    from ridgefill.evaluation.documents import DocumentRun

TABLES = {"rows": "agreement/documents.parquet", "tokens": "agreement/tokens.parquet"}
SCHEMAS = {"rows": "agreement", "tokens": "agreement_tokens"}


def prepare(job: Job) -> Prepared:
    """Each document by itself, at the length that it is read at."""
    from ridgefill.evaluation.agreement import evaluate_agreement
    from ridgefill.evaluation.documents import DocumentRun
    from ridgefill.evaluation.runs import require_arms
    from workflow.jobs.evaluate import load_bench

    experiment, suite, bench = job.experiment, settings(job), load_bench(job)
    run = DocumentRun(
        bench.loaded, suite_arms(job, bench, suite.arms), bench.fitted, bench.geometry, experiment.tail,
        experiment.window, suite.lengths[0], suite.new_tokens, bench.labels,
    )  # fmt: skip
    sources = load_sources(text_set(job.root / experiment.suites.documents.manifest).sources)
    chosen = choose(job, suite, bench.seed_for("agreement"))
    require_arms(run)

    def rows(document: Document, length: int, batch: DocumentRun) -> Tables:
        there = replace(batch, prompt_tokens=length - suite.new_tokens)
        seed, text = bench.seed_for(f"rows/agreement/{document.id}"), load(document, job.texts, sources)
        made = evaluate_agreement(there, document.id, document.domain, text, seed)
        return {name: getattr(made, name) for name in TABLES}

    batches = in_batches(run, run.given, experiment.arms_together)
    items = [
        item
        for document, length in chosen
        for item in items_of(f"{document.sha256[:16]}-{length}", partial(rows, document, length), batches)
    ]
    return Prepared(items, f"agreement: {len(chosen)} documents under {len(run.arms)} arms")


def settings(job: Job) -> AgreementSuite:
    """The suite as the experiment has it. Raises ``ConfigError`` when it has none."""
    suite = job.experiment.suites.agreement
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite agreement; add suites.agreement to its file")
    return suite


def choose(job: Job, suite: AgreementSuite, seed: int) -> Sequence[tuple[Document, int]]:
    """The documents that are followed, drawn by ``seed``, and each one's tokens with its continuation."""
    given = job.experiment.suites.documents
    documents = select(load_manifest(Path(given.manifest)), given.domains, given.per_domain)
    return balanced(documents, suite.documents, [length + suite.new_tokens for length in suite.lengths], seed)


def suite_arms(job: Job, bench: Any, names: tuple[str, ...] | None) -> list[Arm]:
    """The arms that a suite runs: those named, or all of the experiment's, and always exact.

    Not those that only the split curve has; they come after the experiment's own, each of which is at one split.
    """
    own: list[Arm] = bench.arms[: len(job.experiment.arms)]
    return [arm for arm in own if names is None or arm.name in names or arm.name == "exact"]


def reads(job: Job) -> list[Path]:
    """The documents' manifest. Raises ``ConfigError`` for an experiment without the suite, before anything begins."""
    settings(job)
    return [Path(job.experiment.suites.documents.manifest)]


SUITE = Suite("agreement", "docs", TABLES, SCHEMAS, prepare, reads)


def work(arguments: argparse.Namespace) -> str:
    """Follow exact on every document, or a shard's share; finished documents of an interrupted run are kept."""
    return evaluate_suite(SUITE, arguments)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
