"""``python -m workflow.jobs.agreement``: how closely every arm follows the exact arm after documents' prompts."""

from __future__ import annotations

import argparse
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgefill.arms import Arm
from ridgefill.errors import ConfigError
from ridgefill.progress import progress
from ridgefill.results import write_table
from ridgefill.suites.balance import balanced
from ridgefill.suites.documents import load, load_manifest, select, text_set
from ridgefill.texts import load_sources
from workflow.jobs.common import Job, job_from, parser, run_job

TABLES = {"rows": "agreement/documents.parquet", "tokens": "agreement/tokens.parquet"}
SCHEMAS = {"rows": "agreement", "tokens": "agreement_tokens"}


def work(arguments: argparse.Namespace) -> str:
    """Follow the exact arm on every document; finished documents of an interrupted run are not computed again."""
    job = job_from(arguments)
    from ridgefill.evaluation.agreement import evaluate_agreement
    from ridgefill.evaluation.documents import DocumentRun
    from ridgefill.evaluation.runs import require_arms
    from workflow.jobs.evaluate import fitted_inputs, load_bench, open_parts

    experiment, suite = job.experiment, job.experiment.suites.agreement
    if suite is None:
        raise ConfigError(f"experiment {job.name} has no suite agreement; add suites.agreement to its file")
    inputs, manifest = fitted_inputs(job), Path(experiment.suites.documents.manifest)
    with job.attempt("agreement", [*inputs, manifest]) as attempt:
        bench = load_bench(job)
        run = DocumentRun(
            bench.loaded, suite_arms(job, bench, suite.arms), bench.fitted, bench.geometry, experiment.tail,
            experiment.window, suite.lengths[0], suite.new_tokens, bench.labels,
        )  # fmt: skip
        sources = load_sources(text_set(job.root / manifest).sources)
        documents = select(
            load_manifest(manifest), experiment.suites.documents.domains, experiment.suites.documents.per_domain
        )
        needed = [length + suite.new_tokens for length in suite.lengths]
        chosen = balanced(documents, suite.documents, needed, bench.seed_for("agreement"))
        parts = open_parts(job, "agreement", inputs)
        require_arms(run)
        tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        with progress(len(chosen), "agreement", "docs") as bar:
            for document, length in chosen:
                item = f"{document.sha256[:16]}-{length}"
                done = parts.get(item)
                if done is None:
                    there = replace(run, prompt_tokens=length - suite.new_tokens)
                    seed, text = bench.seed_for(f"rows/agreement/{document.id}"), load(document, job.texts, sources)
                    made = evaluate_agreement(there, document.id, document.domain, text, seed)
                    done = {name: getattr(made, name) for name in tables}
                    parts.put(item, done)
                for name in tables:
                    tables[name] += done[name]
                bar.update(1)
        metadata = job.metadata(attempt)
        for name, rows in tables.items():
            write_table(job.out / TABLES[name], SCHEMAS[name], rows, metadata)
        attempt.finish(list(TABLES.values()), job.out, published=list(TABLES.values()))
    shutil.rmtree(parts.folder, ignore_errors=True)
    return f"agreement: {len(chosen)} documents under {len(run.arms)} arms"


def suite_arms(job: Job, bench: Any, names: tuple[str, ...] | None) -> list[Arm]:
    """The arms that a suite runs: those named, or all of the experiment's, and always exact.

    Not those that only the split curve has; they come after the experiment's own, each of which is at one split.
    """
    own: list[Arm] = bench.arms[: len(job.experiment.arms)]
    return [arm for arm in own if names is None or arm.name in names or arm.name == "exact"]


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
