"""What to type next."""

from __future__ import annotations

from pathlib import Path

from ledger.branches import DEFAULT


def run_hint(root: Path, experiment: str, run: str) -> str:
    """The command that launches a run: the workflow's where the project has one for it, else this program's."""
    config = root / "workflow" / "config" / "experiments" / f"{experiment}.yaml"
    if (root / "Snakefile").is_file() and config.is_file():
        return f"snakemake --cores all results/{experiment}"
    return f"ledger run {experiment}/{run} -- COMMAND"


def branch_option(branch: str) -> str:
    """The option that names a branch in a command; nothing for the one that is meant without it."""
    return "" if branch == DEFAULT else f" --branch {branch}"
