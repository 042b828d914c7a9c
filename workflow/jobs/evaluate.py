"""What the evaluation jobs share: maps, arms, seeds, and the fingerprint that lets finished items be reused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ledger.seeds import run_seed
from ridgefill.arms import Arm
from ridgefill.config import cost_geometry, experiment_arms
from ridgefill.corrections.files import load_correction
from ridgefill.cost import Geometry
from ridgefill.errors import MapError
from ridgefill.evaluation.parts import Parts
from ridgefill.evaluation.runs import Fitted
from ridgefill.fitted_names import FREQUENCIES, maps_name, needed_corrections, needed_maps, needs_frequencies
from ridgefill.low_rank_files import load_fitted
from ridgefill.models.kva import load_kva
from ridgefill.models.load import RECORD, Loaded, load_model_folder
from ridgefill.selectors.frequency_files import load_frequencies
from workflow.jobs.common import Job
from workflow.jobs.corrections import ALL_CORRECTIONS, correction_file
from workflow.jobs.fit import ALL_MAPS
from workflow.jobs.same_model import require_captured_weights
from workflow.sources import source_hash


@dataclass(frozen=True)
class Bench:
    """Everything loaded that an evaluation needs, from checked files."""

    loaded: Loaded
    arms: list[Arm]
    fitted: Fitted
    geometry: Geometry
    labels: dict[str, str]
    leaf: str

    def seed_for(self, label: str) -> int:
        """The run seed of ``label``, derived from the registration."""
        return run_seed(self.leaf, label)


def load_bench(job: Job) -> Bench:
    """Load model and maps; maps fitted for another model or tokenizer are refused by name."""
    import torch

    torch.set_num_threads(job.threads)
    experiment = job.experiment
    loaded = load_model_folder(job.model_folder, job.model, experiment.dtype)
    # The exact pass, which every arm starts from, is the original model's.
    loaded = replace(loaded, adapter=loaded.adapter.filling("exact"))
    arms = experiment_arms(experiment, loaded.adapter.layers)
    return Bench(
        loaded,
        arms,
        load_what_was_fitted(job, loaded, arms),
        cost_geometry(job.model),
        {"experiment": experiment.name, "model": job.model.name},
        job.registration.leaf,
    )


def load_what_was_fitted(job: Job, loaded: Loaded, arms: list[Arm]) -> Fitted:
    """Maps in the model's type and place, state corrections, token frequencies and heads, as far as arms need them."""
    adapter = loaded.adapter
    splits = {arm.split for arm in arms if arm.fill == "ridge" and arm.split is not None}
    maps = {
        (split, options): load_fitted(job.out / "maps" / maps_name(split, options), loaded.architecture)
        for split, options in needed_maps(arms, splits)
    }
    kva = any(arm.fill == "kva" for arm in arms)
    return Fitted(
        {key: one.to(adapter.dtype, adapter.device).predict for key, one in maps.items()},
        {name: load_correction(job.out / correction_file(name)) for name in needed_corrections(arms)},
        load_frequencies(job.out / FREQUENCIES) if needs_frequencies(arms) else None,
        load_kva(job.kva, loaded.architecture) if kva and job.kva is not None else None,
    )


def fitted_inputs(job: Job) -> list[Path]:
    """What the evaluation reads of what was fitted, recorded as the input of the run: checksums of maps and more.

    Raises ``MapError`` when a file is missing, ``ModelError`` when the model is not the one that was captured.
    """
    arms = experiment_arms(job.experiment, job.model.geometry.layers)
    wanted = [job.out / ALL_MAPS]
    wanted += [job.out / ALL_CORRECTIONS] if needed_corrections(arms) else []
    wanted += [job.out / FREQUENCIES] if needs_frequencies(arms) else []
    for path in wanted:
        if not path.is_file():
            raise MapError(f"{path} is missing; run the step that makes it first")
    require_captured_weights(job)
    return wanted


def _model_files(folder: Path) -> Any:
    """What tells one model from another without reading all of it: recorded hashes, else names, sizes and times."""
    record = folder / RECORD
    if record.is_file():
        return record.read_text("utf-8")
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def open_parts(job: Job, run: str, inputs: list[Path]) -> Parts:
    """Finished items of ``run``, valid for this configuration, model, maps, registration and code."""
    depends: dict[str, Any] = {
        "config": job.config_sha256(),
        "registration": job.registration.leaf,
        "maps": [hashlib.sha256(path.read_bytes()).hexdigest() for path in inputs],
        "model": _model_files(job.model_folder),
        "code": source_hash(f"workflow.jobs.{run}", job.root),
    }
    fingerprint = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()
    return Parts(job.out / run / "parts", fingerprint)
