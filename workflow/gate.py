"""The launch gate of the workflow: which registration allows an experiment to run, or why none does."""

from __future__ import annotations

from pathlib import Path

from ledger.launch import Registration, check_allowed, find_registration

RUNS = ("capture", "fit", "ruler", "documents")
"""Runs of an experiment that have to be registered, in the order in which they run."""


def allowed(root: Path, branch: str, claim: str, overrides: dict[str, str]) -> Registration:
    """The registration that covers the claim, its configs and these overrides.

    Looks in the branch that will be written and in the published one. Raises the ledger's own refusals
    (unregistered, drifted, not in the claim), whose message names the command to type.
    """
    registration = find_registration(root, [branch, "main"], Path(claim))
    for run in RUNS:
        check_allowed(registration, run, overrides)
    return registration


def entry_path(registration: Registration) -> str:
    """The registration's entry file, relative to the project's root: an input of every gated rule."""
    return f"data/ledger/{registration.branch}/entries/{registration.seq:08d}.json"
