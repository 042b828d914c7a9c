"""``python -m workflow.jobs.report``: verdicts by the registered rules, then tables, figures and the report."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from typing import Any

from ledger.branches import ledger_home, open_branch
from ledger.entry import Entry
from ledger.launch import Registration
from ledger.rules import decide, rule_text
from ridgefill.errors import ResultsError
from ridgefill.measures import Measures
from ridgefill.results import write_bytes, write_json
from ridgefill.tables.render import render
from workflow.gate import needed_runs
from workflow.jobs.common import Job, job_from, parser, run_job
from workflow.reporting import NOTES, verdict_row

RECORDED = ("torch", "transformers", "numpy", "pyarrow", "duckdb", "snakemake", "safetensors", "tokenizers")


def work(arguments: argparse.Namespace) -> str:
    """Write the run's record, decide every prediction, render. Verdicts are whatever the rules say."""
    job = job_from(arguments)
    registration = job.registration
    write_json(job.out / "experiment.json", _resolved(job))
    write_json(job.out / "provenance.json", _provenance(job, registration))
    write_bytes(job.out / "claim.yaml", (job.root / job.experiment.claim).read_bytes())
    measures = Measures(job.out)
    verdicts = [
        verdict_row(decide(prediction, measures.lookup), prediction.says, rule_text(prediction.rule))
        for prediction in registration.claim.predictions
    ]
    write_json(job.out / "verdicts.json", verdicts)
    done = render(job.out, job.root / NOTES, ledger_home(job.root))
    counted = ", ".join(f"{verdict['id']} {verdict['verdict']}" for verdict in verdicts) or "no predictions"
    return f"report: {done.report} with {done.tables} tables, {done.figures} figures, {done.cells} numbers; {counted}"


def _resolved(job: Job) -> dict[str, Any]:
    return {
        "experiment": job.experiment.model_dump(mode="json"),
        "model": job.model.model_dump(mode="json"),
        "overrides": job.overrides,
    }


def _provenance(job: Job, registration: Registration) -> dict[str, Any]:
    entries = open_branch(job.root, job.branch).entries()
    runs = {run: _last_attempt(entries, registration, run) for run in needed_runs(job.written, job.model)}
    return {
        "registration": {
            "branch": registration.branch,
            "seq": registration.seq,
            "leaf": registration.leaf,
            "grade": registration.grade,
        },
        "branch": job.branch,
        "runs": runs,
        "git_commit": runs["documents"].pop("git_commit"),
        "environment": {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            **{name: importlib.metadata.version(name) for name in RECORDED},
        },
    }


def _last_attempt(entries: tuple[Entry, ...], registration: Registration, run: str) -> dict[str, Any]:
    """The last finished attempt of ``run`` under the registration, on the branch that was written."""
    results = {entry.body["start"]["seq"]: entry for entry in entries if entry.kind == "result" and entry.body}
    for entry in reversed(entries):
        body = entry.body or {}
        if entry.kind != "start" or (body.get("run"), body["registration"]["leaf"]) != (run, registration.leaf):
            continue
        result = results.get(entry.seq)
        if result is None or result.body is None or result.body["status"] != "ok":
            continue
        return {
            "start": entry.seq,
            "result": result.seq,
            "leaf": result.leaf,
            "status": result.body["status"],
            "git_commit": (body.get("git") or {}).get("commit", "unknown"),
        }
    raise ResultsError(f"the ledger has no finished attempt of run {run}; run the experiment's target again")


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
