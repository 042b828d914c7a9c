"""The tiny experiment of ``tests/end_to_end`` in a checkout whose jobs go to a Slurm that is started here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PLUGIN = ("snakemake-executor-plugin-slurm", "snakemake-executor-plugin-slurm-jobstep", "pandas")
LONGEST_INSTALLATION = 900


def _module(name: str, path: Path) -> ModuleType:
    """A module of the tests by its path; tests are no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# Its fixtures make the checkout, once.
_end_to_end = _module("end_to_end_conftest", HERE.parent / "end_to_end/conftest.py")
fresh, material, refused, tidy = (getattr(_end_to_end, name) for name in ("fresh", "material", "refused", "tidy"))
_mini_slurm = _module("cluster_mini_slurm", HERE / "mini_slurm.py")


@pytest.fixture(scope="session")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    """Where the executor plugin lies when this environment has none: beside it, so that it is left as it was."""
    if importlib.util.find_spec("snakemake_executor_plugin_slurm") is not None:
        return None
    folder = tmp_path_factory.mktemp("executor")
    # What else it needs, Snakemake needs too.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder)]
    done = subprocess.run(
        [*command, "-c", str(ROOT / "constraints.txt"), *PLUGIN],
        capture_output=True, text=True, check=False, timeout=LONGEST_INSTALLATION,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip(f"no Slurm test: pip could not install {PLUGIN[0]} ({done.stderr.strip()[-200:]})")
    return folder


@pytest.fixture(scope="session")
def slurm(executor: Path | None) -> Iterator[object]:
    """A running Slurm that every command started by these tests finds; gone afterwards, with all its jobs."""
    if os.geteuid() != 0:
        pytest.skip("no Slurm test: slurmd starts jobs as their user, so it has to be root")
    done = subprocess.run(
        [str(HERE / "install_slurm.sh")], capture_output=True, text=True, check=False, timeout=LONGEST_INSTALLATION
    )
    if done.returncode != 0:
        pytest.skip(f"no Slurm test: {(done.stdout + done.stderr).strip()}")
    try:
        made = _mini_slurm.started()
    except _mini_slurm.NoSlurm as failure:
        pytest.skip(f"no Slurm test: {failure}")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        if executor is not None:
            patch.setenv("PYTHONPATH", str(executor), prepend=os.pathsep)
        yield made
    made.stop()
    assert not made.folder.exists()
    assert all(daemon.poll() is not None for daemon in made.daemons)
