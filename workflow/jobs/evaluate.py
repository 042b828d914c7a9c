"""What the evaluation jobs share: maps, arms, seeds, and the fingerprint that lets finished items be reused."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.seeds import run_seed
from ridgefill.arms import Arm
from ridgefill.config import cost_geometry
from ridgefill.cost import Geometry
from ridgefill.errors import MapError
from ridgefill.evaluation.parts import Parts
from ridgefill.evaluation.runs import experiment_arms, ready_maps
from ridgefill.fill import Predict
from ridgefill.maps import load_maps
from ridgefill.models.load import RECORD, Loaded, load_model_folder
from workflow.jobs.common import Job
from workflow.jobs.fit import ALL_MAPS, maps_folder
from workflow.sources import source_hash


@dataclass(frozen=True)
class Bench:
    """Everything loaded that an evaluation needs, from checked files."""

    loaded: Loaded
    arms: list[Arm]
    maps: dict[int, Predict]
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
    arms = experiment_arms(experiment, loaded.adapter.layers)
    splits = sorted({arm.split for arm in arms if arm.fill == "ridge" and arm.split is not None})
    maps = {split: load_maps(job.out / maps_folder(split), architecture=loaded.architecture) for split in splits}
    return Bench(
        loaded,
        arms,
        ready_maps(maps, loaded.adapter),
        cost_geometry(job.model),
        {"experiment": experiment.name, "model": job.model.name},
        job.registration.leaf,
    )


def maps_inputs(job: Job) -> list[Path]:
    """The checksums of every map file, recorded as the input of the run."""
    sums = job.out / ALL_MAPS
    if not sums.is_file():
        raise MapError(f"{sums} is missing; run the fit first")
    return [sums]


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
        "maps": [path.read_text("utf-8") for path in inputs],
        "model": _model_files(job.model_folder),
        "code": source_hash(f"workflow.jobs.{run}", job.root),
    }
    fingerprint = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()
    return Parts(job.out / run / "parts", fingerprint)
