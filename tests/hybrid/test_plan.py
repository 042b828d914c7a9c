"""The experiments on the trained hybrids, planned as a user's clone would: every job of the pipeline, and no other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("workflow", "ridgefill", "ledger", "profiles", "data/texts", "data/models")
JOBS = {
    "capture", "corrections", "documents", "fit", "frequencies", "model", "overlap", "report", "ruler",
    "text_source", "turns", "verify",
}  # fmt: skip


def test_the_hybrids_experiment_plans_to_its_end_once_registered(tmp_path):
    """One registration and a dry run, in a copy with neither models nor texts; nothing is fetched for it."""
    for name in CODE:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.tmp"))
    shutil.copy2(ROOT / "Snakefile", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}

    def python(*words):
        return subprocess.run(
            [sys.executable, "-m", *words], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    registered = python("ledger", "register", "workflow/claims/hybrid_attention.yaml")
    assert registered.returncode == 0, registered.stderr
    done = python("snakemake", "-n", "--cores", "1", "results/hybrid_attention")
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    counted = {line.split()[0] for line in said.splitlines() if len(line.split()) == 2 and line.split()[1].isdigit()}
    assert counted - {"total", "results/hybrid_attention"} == JOBS
