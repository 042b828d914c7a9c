"""``python -m workflow.jobs.corrections``: fitted offsets of late recurrent states, for the arms that add them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ridgefill.config import experiment_arms
from ridgefill.files import sha256_file, write_text
from ridgefill.fitted_names import correction_name, maps_name, needed_corrections
from ridgefill.progress import progress
from workflow.jobs.capture import token_texts
from workflow.jobs.common import Job, job_from, parser, run_job
from workflow.jobs.fit import ALL_MAPS

ALL_CORRECTIONS = "corrections/SHA256SUMS"


def correction_file(name: str) -> str:
    """Where one state correction is, relative to the results folder; its layout is the published one."""
    return f"corrections/{name}/correction.safetensors"


def work(arguments: argparse.Namespace) -> str:
    """Fit every correction that an arm needs, on the calibration text that the maps were fitted on."""
    job = job_from(arguments)
    import torch

    from ridgefill.corrections.files import save_correction
    from ridgefill.models.load import load_model_folder

    torch.set_num_threads(job.threads)
    with job.attempt("corrections", [job.out / ALL_MAPS]) as attempt:
        loaded = load_model_folder(job.model_folder, job.model, job.experiment.dtype)
        wanted = needed_corrections(experiment_arms(job.experiment, loaded.adapter.layers))
        sums, outputs = [], []
        for name, arm in wanted.items():
            file = correction_file(name)
            (job.out / file).parent.mkdir(parents=True, exist_ok=True)
            digest = save_correction(job.out / file, _fitted(job, loaded, arm))
            sums.append(f"{digest}  {Path(file).relative_to('corrections')}\n")
            outputs.append(file)
        write_text(job.out / ALL_CORRECTIONS, "".join(sums))
        attempt.finish([*outputs, ALL_CORRECTIONS], job.out)
    return f"corrections: {', '.join(wanted)}; checksums {sha256_file(job.out / ALL_CORRECTIONS)[:12]}"


def _fitted(job: Job, loaded: Any, arm: Any) -> Any:
    from ridgefill.capture import pieces
    from ridgefill.corrections.deltas import EVERY, fit_deltas
    from ridgefill.evaluation.prompts import opening
    from ridgefill.low_rank_files import load_fitted

    settings, adapter = job.experiment.capture, loaded.adapter
    texts = token_texts(job, loaded.tokenizer, "calibration")
    maps: Any = _Identity(adapter)
    if arm.fill == "ridge":
        folder = job.out / "maps" / maps_name(arm.split, arm.maps)
        maps = load_fitted(folder, loaded.architecture).to(adapter.dtype, adapter.device)
    with progress(settings.tokens, correction_name(arm), "tokens") as bar:
        return fit_deltas(
            adapter,
            maps,
            pieces(texts, settings.chunk, settings.tokens, opening(loaded.tokenizer)),
            arm.split,
            # Pieces may be shorter than the paper's 2,048 tokens; then every piece gives one state at its end.
            every=min(EVERY, settings.chunk),
            split_layer=arm.split_layer,
            progress=bar.update,
        )


class _Identity:
    """The identity fill as maps: the split state is every late layer's input."""

    def __init__(self, adapter: Any) -> None:
        self.adapter = adapter

    def predict(self, layer: int, state: Any) -> Any:
        """See ``corrections.deltas.Predicts``."""
        return self.adapter.block_input(layer, state)


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
