"""``python -m workflow.jobs.overlap``: the overlap gate between calibration and evaluation texts."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ridgefill.errors import TextError
from ridgefill.files import write_text
from ridgefill.settings import RulerSuite
from ridgefill.suites.documents import check, haystack
from ridgefill.suites.manifest import text_set
from ridgefill.suites.userfiles import read_text
from workflow.jobs.common import Job, job_from, parser, run_job
from workflow.jobs.ruler import hay_of

REPORT = "overlap.json"


def work(arguments: argparse.Namespace) -> str:
    """Check, write the report only when nothing is shared, and refuse otherwise."""
    job = job_from(arguments)
    suite = job.experiment.suites
    files = text_set(job.root / suite.documents.manifest)
    essays = _essays(suite.ruler, job, files.sources)
    report = check(job.texts, essays, files.documents, files.calibration, files.sources)
    if report["findings"]:
        raise TextError(
            f"calibration and evaluation texts share {len(report['findings'])} runs of {report['run_words']} words, "
            f"the first being {report['findings'][0]}; freeze the texts again or choose another haystack"
        )
    if report["near_duplicates"]:
        raise TextError(
            f"{len(report['near_duplicates'])} pairs of evaluation documents say the same, the first being "
            f"{report['near_duplicates'][0]}; freeze the texts again"
        )
    write_text(job.out / REPORT, json.dumps(report, indent=1) + "\n")
    return (
        f"overlap: no shared run of {report['run_words']} words between {report['calibration_texts']} calibration and "
        f"{report['evaluation_texts']} evaluation texts"
    )


def _essays(suite: RulerSuite, job: Job, sources: Path) -> dict[tuple[str, str], str]:
    """The text that needles are hidden in, by where it is from; nothing where samples bring their own."""
    if suite.source in ("official", "hybrid-language"):
        return {}
    if suite.essays_text is not None:
        given = read_text(Path(suite.essays_text.path), suite.essays_text.sha256)
        return {("file", suite.essays_text.path): given.text}
    return haystack(*hay_of(suite), job.texts, sources)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
