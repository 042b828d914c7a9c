"""``python -m workflow.jobs.verify``: every reported number again, by another code path."""

from __future__ import annotations

import argparse

from ridgefill.errors import ResultsError
from ridgefill.recompute import main as recompute
from workflow.jobs.common import job_from, parser, run_job


def work(arguments: argparse.Namespace) -> str:
    """Recompute and refuse to finish when a number does not match; ``verification.json`` has the counts."""
    job = job_from(arguments)
    if recompute([str(job.out)]) != 0:
        raise ResultsError(f"some numbers of {job.out} do not match; the list is above and in verification.json")
    return f"verify: every number of {job.out} was recomputed and matches"


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
