"""``python -m workflow.jobs.fit``: ridge maps of every split, ``lam`` chosen on held-out text."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import Any

from ridgefill.config import experiment_arms
from ridgefill.files import sha256_file, write_text
from ridgefill.fitted_names import maps_name, needed_maps
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.progress import progress
from ridgefill.results import write_table
from workflow.jobs.capture import MOMENTS, token_texts
from workflow.jobs.common import Job, job_from, parser, run_job

LAM_CURVE = "lam/lam_curve.parquet"
FIT_LAYERS = "fit/fit_layers.parquet"
MORE_LAM = "lam/more_maps.parquet"
ALL_MAPS = "maps/SHA256SUMS"


def work(arguments: argparse.Namespace) -> str:
    """Solve every split and ``lam``, choose by cache-write cosine, write the chosen maps and the whole curve.

    Maps that single arms ask for, fitted otherwise from the same moments, get a ``lam`` of their own.
    """
    job = job_from(arguments)
    import torch

    from ridgefill.lam import choose_lam, lam_curve
    from ridgefill.models.load import load_model_folder
    from ridgefill.moments import load_moments
    from ridgefill.ridge import factorise, residual_shares, solve
    from workflow.jobs.same_model import require_captured_weights

    torch.set_num_threads(job.threads)
    experiment = job.experiment
    grid = experiment.fit.lam_grid
    require_captured_weights(job)
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
            outputs += _write_maps(job, loaded, solve(factors[split], lam), PLAIN, factors[split], lam)
        outputs += [MORE_LAM, *_write_more_maps(job, loaded, factors, metadata)]
        outputs.append(_write_sums(job, outputs))
        attempt.finish(outputs, job.out, published=[LAM_CURVE, FIT_LAYERS, MORE_LAM])
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


def _write_more_maps(job: Job, loaded: Any, factors: dict[int, Any], metadata: dict[str, str]) -> list[str]:
    """Maps of single arms and the curve that chose their ``lam``; the files of the maps, none when no arm has any."""
    from ridgefill.lam import choose_lam, choose_lams, lam_curve
    from ridgefill.ridge_options import solve_by_layer

    grid, arms = job.experiment.fit.lam_grid, experiment_arms(job.experiment, loaded.adapter.layers)
    wanted = [(split, options) for split, options in needed_maps(arms, job.experiment.splits) if options != PLAIN]
    rows: list[dict[str, Any]] = []
    files: list[str] = []
    for options in dict.fromkeys(options for _, options in wanted):
        splits = [split for split, one in wanted if one == options]
        given = _factors(job, factors, splits, options)
        curve = lam_curve(loaded.adapter, given, grid, _heldout(job, loaded.tokenizer), options)
        rows += [{"towards": options.aim, "rank": options.rank, **vars(row)} for row in curve]
        for split in splits:
            lams = choose_lams(curve, split, grid, loaded.adapter.layers, options.lam_for)
            maps = solve_by_layer(given[split], lams, options)
            files += _write_maps(job, loaded, maps, options, given[split], choose_lam(curve, split, grid), lams)
    write_table(job.out / MORE_LAM, "lam_curve_options", rows, metadata)
    return files


def _factors(job: Job, all_tokens: dict[int, Any], splits: list[int], options: RidgeOptions) -> dict[int, Any]:
    """What maps of these options are solved from: the moments of their own tokens."""
    from ridgefill.moments import load_moments
    from ridgefill.ridge import factorise

    if options.tokens is None:
        return {split: all_tokens[split] for split in splits}
    moments = load_moments(job.out / MOMENTS, options.tokens)
    return {split: factorise(moments, split) for split in splits}


def _write_maps(
    job: Job,
    loaded: Any,
    maps: Any,
    options: RidgeOptions,
    factors: Any,
    lam: float,
    lams: dict[int, float] | None = None,
) -> list[str]:
    from ridgefill.low_rank_files import save_low_rank
    from ridgefill.maps import save_maps

    folder = job.out / "maps" / maps_name(maps.split, options)
    shutil.rmtree(folder, ignore_errors=True)
    fit = {
        **factors.record(lam),
        "sources": list(job.experiment.capture.sources),
        "model": job.model.name,
        **({} if options == PLAIN else {"towards": options.towards, "rank": options.rank}),
        **(
            {"lam_by_layer": {str(layer): one for layer, one in (lams or {}).items()}}
            if options.lam_for == "layer"
            else {}
        ),
    }
    save = save_maps if options.rank is None else save_low_rank
    save(folder, maps, architecture=loaded.architecture, fit=fit)
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
