"""What the jobs of speed and mixed serving share: the texts that their prompts are stretches of, and the arms timed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ridgefill.arms import Arm
from ridgefill.suites.documents import load, load_manifest, select, text_set
from ridgefill.texts import load_sources
from workflow.jobs.common import Job


def document_texts(job: Job) -> list[str]:
    """The experiment's documents, whose stretches are the prompts."""
    suite = job.experiment.suites.documents
    manifest = job.root / suite.manifest
    sources = load_sources(text_set(manifest).sources)
    return [load(one, job.texts, sources) for one in select(load_manifest(manifest), suite.domains, suite.per_domain)]


def manifest_of(job: Job) -> Path:
    """The manifest of those documents, an input of the run."""
    return Path(job.experiment.suites.documents.manifest)


def arms_to_time(
    job: Job, bench: Any, names: tuple[str, ...] | None, refused: Callable[[Arm], str | None]
) -> list[Arm]:
    """The arms of the experiment that a suite times: not those that only its split curve has."""
    from ridgefill.evaluation.speed import chosen_arms

    # The experiment's own arms come first, each at one split.
    return chosen_arms(bench.arms[: len(job.experiment.arms)], names, refused)
