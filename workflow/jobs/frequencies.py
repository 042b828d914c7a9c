"""``python -m workflow.jobs.frequencies``: how often each token occurs in the calibration documents."""

from __future__ import annotations

import argparse

from ridgefill.fitted_names import FREQUENCIES
from workflow.jobs.capture import token_texts
from workflow.jobs.common import job_from, parser, run_job


def work(arguments: argparse.Namespace) -> str:
    """Count the tokens of all calibration documents of the experiment's sources, whole."""
    job = job_from(arguments)
    from ridgefill.models.load import load_tokenizer
    from ridgefill.selectors.frequency import Frequencies
    from ridgefill.selectors.frequency_files import save_frequencies

    tokenizer = load_tokenizer(job.model_folder)
    documents = [ids for _, ids in token_texts(job, tokenizer, "calibration")]
    counted = Frequencies.of(documents, max(job.model.geometry.vocab, len(tokenizer)))
    save_frequencies(job.out / FREQUENCIES, counted)
    return f"frequencies: {counted.total} tokens of {len(documents)} calibration documents"


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
