"""``python -m workflow.jobs.documents``: loss of every arm on long documents."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from ridgefill.suites.documents import load, load_manifest, select
from ridgefill.suites.manifest import Document, text_set
from ridgefill.texts import load_sources
from workflow.jobs.common import Job, run_job
from workflow.jobs.shards import Prepared, Suite, Tables, evaluate_suite, in_batches, items_of, parser

DOCUMENTS = "documents/documents.parquet"
TOKENS = "documents/tokens.parquet"
TIMINGS = "documents/timings.parquet"
ARMS = "documents/arms.parquet"
MEASURED = "documents/measured.parquet"
TABLES = {"rows": DOCUMENTS, "tokens": TOKENS, "timings": TIMINGS, "arms": ARMS, "measured": MEASURED}
SCHEMAS = {
    "rows": "documents", "tokens": "document_tokens", "timings": "timings", "arms": "arm_runs", "measured": "measured"
}  # fmt: skip


def prepare(job: Job) -> Prepared:
    """Each document by itself."""
    from ridgefill.evaluation.documents import DocumentRun, evaluate_document
    from ridgefill.evaluation.runs import require_arms
    from workflow.jobs.evaluate import load_bench

    experiment, suite, bench = job.experiment, job.experiment.suites.documents, load_bench(job)
    run = DocumentRun(
        bench.loaded, bench.arms, bench.fitted, bench.geometry, experiment.tail, experiment.window,
        suite.prompt_tokens, suite.scored_tokens, bench.labels,
    )  # fmt: skip
    sources = load_sources(text_set(job.root / suite.manifest).sources)
    chosen = select(load_manifest(Path(suite.manifest)), suite.domains, suite.per_domain)
    require_arms(run)

    def rows(document: Document, batch: DocumentRun) -> Tables:
        seed = bench.seed_for(f"rows/documents/{document.id}")
        made = evaluate_document(batch, document.id, document.domain, load(document, job.texts, sources), seed)
        return {name: getattr(made, name) for name in TABLES}

    batches = in_batches(run, run.given, experiment.arms_together)
    items = [item for document in chosen for item in items_of(document.sha256[:16], partial(rows, document), batches)]
    return Prepared(items, f"documents: {len(chosen)} documents under {len(bench.arms)} arms")


SUITE = Suite(
    "documents", "docs", TABLES, SCHEMAS, prepare, lambda job: [Path(job.experiment.suites.documents.manifest)]
)


def work(arguments: argparse.Namespace) -> str:
    """Score every document, or a shard's share; finished documents of an interrupted run are not computed again."""
    return evaluate_suite(SUITE, arguments)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
