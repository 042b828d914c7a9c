"""``python -m workflow.jobs.documents``: loss of every arm on long documents."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from ridgefill.progress import progress
from ridgefill.results import write_table
from ridgefill.suites.documents import load, load_manifest, select
from workflow.jobs.common import job_from, parser, run_job

DOCUMENTS = "documents/documents.parquet"
TOKENS = "documents/tokens.parquet"
TIMINGS = "documents/timings.parquet"


def work(arguments: argparse.Namespace) -> str:
    """Score every document; finished documents of an interrupted run are not computed again."""
    job = job_from(arguments)
    from ridgefill.evaluation.documents import DocumentRun, evaluate_document
    from workflow.jobs.evaluate import load_bench, maps_inputs, open_parts

    experiment, suite = job.experiment, job.experiment.suites.documents
    inputs = maps_inputs(job)
    with job.attempt("documents", [*inputs, Path(suite.manifest)]) as attempt:
        bench = load_bench(job)
        run = DocumentRun(
            bench.loaded, bench.arms, bench.maps, bench.geometry, experiment.tail, experiment.window,
            suite.prompt_tokens, suite.scored_tokens, bench.labels,
        )  # fmt: skip
        chosen = select(load_manifest(Path(suite.manifest)), suite.domains, suite.per_domain)
        parts = open_parts(job, "documents", inputs)
        rows: dict[str, list[dict[str, Any]]] = {"rows": [], "tokens": [], "timings": []}
        with progress(len(chosen), "documents", "docs") as bar:
            for document in chosen:
                item = document.sha256[:16]
                done = parts.get(item)
                if done is None:
                    seed = bench.seed_for(f"rows/documents/{document.id}")
                    made = evaluate_document(run, document.id, document.domain, load(document, job.texts), seed)
                    done = {"rows": made.rows, "tokens": made.tokens, "timings": made.timings}
                    parts.put(item, done)
                for name in rows:
                    rows[name] += done[name]
                bar.update(1)
        metadata = job.metadata(attempt)
        write_table(job.out / DOCUMENTS, "documents", rows["rows"], metadata)
        write_table(job.out / TOKENS, "document_tokens", rows["tokens"], metadata)
        write_table(job.out / TIMINGS, "timings", rows["timings"], metadata)
        files = [DOCUMENTS, TOKENS, TIMINGS]
        attempt.finish(files, job.out, published=files)
    shutil.rmtree(parts.folder, ignore_errors=True)
    return f"documents: {len(chosen)} documents under {len(bench.arms)} arms"


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
