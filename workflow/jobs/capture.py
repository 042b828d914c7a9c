"""``python -m workflow.jobs.capture``: one exact pass over calibration text, reduced to moments."""

from __future__ import annotations

import argparse
import json

from ridgefill.config import experiment_arms
from ridgefill.fitted_names import fit_lengths
from ridgefill.models.source import model_inputs
from ridgefill.progress import progress
from ridgefill.suites.documents import calibration
from ridgefill.suites.manifest import text_set
from workflow.jobs.common import Job, job_from, parser, run_job
from workflow.jobs.memory import NOTES

MOMENTS = "capture/moments.safetensors"


def work(arguments: argparse.Namespace) -> str:
    """Capture the moments of every split of the experiment."""
    job = job_from(arguments)
    import torch

    from ridgefill.capture import capture_lengths, pieces
    from ridgefill.evaluation.prompts import opening
    from ridgefill.models.load import load_model_folder
    from ridgefill.moments import save_moments

    torch.set_num_threads(job.threads)
    experiment, settings = job.experiment, job.experiment.capture
    with job.attempt("capture", model_inputs(job.model_folder)) as attempt:
        loaded = load_model_folder(job.model_folder, job.model, experiment.dtype)
        texts = token_texts(job, loaded.tokenizer, "calibration")
        notes: list[str] = []
        with progress(settings.tokens, "capture", "tokens") as bar:
            found = capture_lengths(
                loaded.adapter,
                pieces(texts, settings.chunk, settings.tokens, opening(loaded.tokenizer)),
                experiment.splits,
                fit_lengths(experiment_arms(experiment, loaded.adapter.layers), experiment.splits),
                stride=settings.stride,
                progress=bar.update,
                halved=notes.append,
            )
        moments, shorter = found[None], {tokens: one for tokens, one in found.items() if tokens is not None}
        metadata = job.metadata(attempt) | ({NOTES: json.dumps(notes)} if notes else {})
        save_moments(job.out / MOMENTS, moments, metadata, shorter)
        attempt.finish([MOMENTS], job.out)
    return f"capture: moments of splits {', '.join(map(str, moments.splits))} over {moments.rows} rows"


def token_texts(job: Job, tokenizer: object, role: str) -> list[tuple[str, list[int]]]:
    """The frozen texts of one role, tokenised."""
    files = text_set(job.root / job.experiment.suites.documents.manifest)
    texts = calibration(job.experiment.capture.sources, job.texts, files.calibration, role, files.sources)
    return [(name, tokenizer(text, add_special_tokens=False)["input_ids"]) for name, text in texts]  # type: ignore[operator]


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
