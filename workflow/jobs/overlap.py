"""``python -m workflow.jobs.overlap``: the overlap gate between calibration and evaluation texts."""

from __future__ import annotations

import argparse
import json

from ridgefill.errors import TextError
from ridgefill.files import write_text
from ridgefill.suites.documents import check, haystack
from workflow.jobs.common import job_from, parser, run_job

REPORT = "overlap.json"


def work(arguments: argparse.Namespace) -> str:
    """Check, write the report only when nothing is shared, and refuse otherwise."""
    job = job_from(arguments)
    suite = job.experiment.suites
    essays = haystack(suite.ruler.haystack, *suite.ruler.essays, job.texts)
    report = check(job.texts, essays, documents=job.root / suite.documents.manifest)
    if report["findings"]:
        raise TextError(
            f"calibration and evaluation texts share {len(report['findings'])} runs of {report['run_words']} words, "
            f"the first being {report['findings'][0]}; freeze the texts again or choose another haystack"
        )
    write_text(job.out / REPORT, json.dumps(report, indent=1) + "\n")
    return (
        f"overlap: no shared run of {report['run_words']} words between {report['calibration_texts']} calibration and "
        f"{report['evaluation_texts']} evaluation texts"
    )


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
