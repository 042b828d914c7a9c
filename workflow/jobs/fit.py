"""``python -m workflow.jobs.fit``: ridge maps of every split, ``lam`` chosen on held-out text."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from ridgefill.files import sha256_file, write_text
from ridgefill.progress import progress
from ridgefill.results import write_table
from workflow.jobs.capture import MOMENTS, token_texts
from workflow.jobs.common import Job, job_from, parser, run_job

LAM_CURVE = "lam/lam_curve.parquet"
FIT_LAYERS = "fit/fit_layers.parquet"
ALL_MAPS = "maps/SHA256SUMS"


def maps_folder(split: int) -> str:
    """Where the maps of one split are, relative to the results folder."""
    return f"maps/split{split}"


def work(arguments: argparse.Namespace) -> str:
    """Solve every split and ``lam``, choose by cache-write cosine, write the chosen maps and the whole curve."""
    job = job_from(arguments)
    import torch

    from ridgefill.lam import choose_lam, lam_curve
    from ridgefill.models.load import load_model_folder
    from ridgefill.moments import load_moments
    from ridgefill.ridge import factorise, residual_shares, solve

    torch.set_num_threads(job.threads)
    experiment = job.experiment
    grid = experiment.fit.lam_grid
    with job.attempt("fit", [job.out / MOMENTS]) as attempt:
        moments = load_moments(job.out / MOMENTS)
        factors = {split: factorise(moments, split) for split in experiment.splits}
        loaded = load_model_folder(job.model_folder, job.model, experiment.dtype)
        curve = lam_curve(loaded.adapter, factors, grid, _heldout(job, loaded.tokenizer))
        chosen = {split: choose_lam(curve, split, grid) for split in experiment.splits}
        metadata = job.metadata(attempt)
        rows = [row.__dict__ for row in curve]
        write_table(job.out / LAM_CURVE, "lam_curve", rows, metadata)
        layers = []
        for split, lam in chosen.items():
            shares = residual_shares(factors[split], lam)
            layers += _layer_rows(factors[split], lam, shares)
        write_table(job.out / FIT_LAYERS, "fit_layers", layers, metadata)
        outputs = [LAM_CURVE, FIT_LAYERS]
        for split, lam in chosen.items():
            outputs += _write_maps(job, loaded.architecture, solve(factors[split], lam), factors[split], lam)
        outputs.append(_write_sums(job, outputs))
        attempt.finish(outputs, job.out, published=[LAM_CURVE, FIT_LAYERS])
    picked = ", ".join(f"{lam:g} at split {split}" for split, lam in chosen.items())
    return f"fit: lam {picked}; maps in {job.out / 'maps'}"


def _heldout(job: Job, tokenizer: Any) -> Any:
    from ridgefill.capture import pieces
    from ridgefill.evaluation.prompts import opening

    settings = job.experiment.capture
    texts = token_texts(job, tokenizer, "heldout")
    with progress(settings.heldout_tokens, "lam", "tokens") as bar:
        for piece in pieces(texts, settings.chunk, settings.heldout_tokens, opening(tokenizer)):
            yield piece
            bar.update(len(piece))


def _layer_rows(factors: Any, lam: float, shares: dict[int, float]) -> list[dict[str, Any]]:
    return [
        {
            "split": factors.split,
            "layer": layer,
            "lam": lam,
            "alpha": factors.alpha(lam),
            "condition": factors.condition(lam),
            "residual_share": share,
        }
        for layer, share in shares.items()
    ]


def _write_maps(job: Job, architecture: dict[str, Any], maps: Any, factors: Any, lam: float) -> list[str]:
    from ridgefill.maps import save_maps

    folder = job.out / maps_folder(maps.split)
    shutil.rmtree(folder, ignore_errors=True)
    fit = {
        **factors.record(lam),
        "sources": list(job.experiment.capture.sources),
        "model": job.model.name,
    }
    save_maps(folder, maps, architecture=architecture, fit=fit)
    return sorted(str(path.relative_to(job.out)) for path in folder.iterdir())


def _write_sums(job: Job, files: list[str]) -> str:
    """Checksums of every map file of every split: the one file that says the fit is complete."""
    maps = sorted(Path(name) for name in files if name.startswith("maps/"))
    lines = [f"{sha256_file(job.out / name)}  {name.relative_to('maps')}\n" for name in maps]
    write_text(job.out / ALL_MAPS, "".join(lines))
    return ALL_MAPS


def main() -> int:
    """Entry point."""
    return run_job(work, parser(__doc__ or ""))


if __name__ == "__main__":
    raise SystemExit(main())
