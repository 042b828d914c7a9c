"""The launch gate of the workflow: which registration allows an experiment to run, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ledger.launch import Registration, check_allowed, find_registration
from ridgefill.config import experiment_arms
from ridgefill.fitted_names import needed_corrections
from ridgefill.settings import Experiment, ModelConfig

RUNS = ("capture", "fit", "ruler", "documents")
"""Runs of every experiment that have to be registered, in the order in which they run."""
SHARDED = ("ruler", "documents", "agreement", "turns", "longbench_v1", "longbench_v2")
"""Suites that several jobs can make together; every one of them has a job of its name that takes ``--shard``. What
times arms beside each other is one job."""
MOST_SHARDS = 1000
"""Into how many jobs a suite may be divided; a bound, so that leases of shards can be looked through."""


def more_suites(experiment: Experiment) -> tuple[str, ...]:
    """Suites that the experiment has beside retrieval and documents; a suite is called as its run and its folder."""
    return tuple(name for name, suite in experiment.suites if suite is not None and name not in RUNS)


def needed_runs(experiment: Experiment, model: ModelConfig) -> tuple[str, ...]:
    """Runs of one experiment: those of all, the fit of state corrections where an arm has one, and its other suites."""
    corrected = needed_corrections(experiment_arms(experiment, model.geometry.layers))
    runs = (*RUNS[:2], "corrections", *RUNS[2:]) if corrected else RUNS
    return (*runs, *more_suites(experiment))


def allowed(root: Path, branch: str, claim: str, overrides: dict[str, str], runs: Sequence[str] = RUNS) -> Registration:
    """The registration that covers the claim, its configs and these overrides.

    Looks in the branch that will be written and in the published one. Raises the ledger's own refusals
    (unregistered, drifted, not in the claim), whose message names the command to type.
    """
    registration = find_registration(root, [branch, "main"], Path(claim))
    for run in runs:
        check_allowed(registration, run, overrides)
    return registration


def entry_path(registration: Registration) -> str:
    """The registration's entry file, relative to the project's root: an input of every gated rule."""
    return f"data/ledger/{registration.branch}/entries/{registration.seq:08d}.json"
