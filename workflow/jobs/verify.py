"""``python -m workflow.jobs.verify``: every reported number again, by another code path."""

from __future__ import annotations

import argparse
import sys

from ridgefill.errors import ResultsError
from ridgefill.recompute import describe, recompute, write_report
from workflow.jobs.common import job_from, parser, run_job


def work(arguments: argparse.Namespace) -> str:
    """Recompute and refuse to finish when a number does not match; ``verification.json`` has the counts."""
    job = job_from(arguments)
    report = recompute(job.out)
    write_report(job.out, report)
    sys.stdout.write(describe(report))
    if report.mismatches:
        raise ResultsError(
            f"{len(report.mismatches)} numbers of {job.out} do not match what was recomputed; they are listed above"
        )
    return f"verify: every number of {job.out} was recomputed and matches"


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
