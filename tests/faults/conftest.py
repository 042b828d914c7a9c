"""The tiny experiment of ``tests/end_to_end``, to be broken on purpose."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _module(name: str, path: Path) -> ModuleType:
    """A module of the tests by its path; tests are no package."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


# Its fixtures make the checkout, run it once, and run single jobs without importing torch each time.
_end_to_end = _module("end_to_end_conftest", Path(__file__).parents[1] / "end_to_end/conftest.py")
fresh, material, finished, checkout = (
    getattr(_end_to_end, name) for name in ("fresh", "material", "finished", "checkout")
)
forked, job, plan, refused, tidy = (getattr(_end_to_end, name) for name in ("forked", "job", "plan", "refused", "tidy"))
# What the tests of this folder share; they import it by these names.
for _name in ("processes", "compared", "book"):
    _module(f"faults_{_name}", Path(__file__).with_name(f"{_name}.py"))
_ledger = _module("faults_ledger_conftest", Path(__file__).parents[1] / "ledger/conftest.py")
project, claim_text = _ledger.project, _ledger.claim_text
NOT_ALLOWED = 77


@pytest.fixture
def inside(forked):
    """``inside(checkout, options, module, *arguments)``: a module where disk, folder or network are as options say."""

    def run(place, options, module, *arguments):
        shutil.copy2(Path(__file__).with_name("inside.py"), place.root / "inside.py")
        shutil.rmtree(place.root / "left", ignore_errors=True)
        done = forked(place, "inside", [*options, module, *arguments])
        if done.returncode == NOT_ALLOWED:
            pytest.skip(f"no test of {options[0]}: {done.stderr.strip()}")
        return done

    return run


@pytest.fixture
def inside_job(inside):
    """The same for a job of the tiny experiment."""

    def run(place, options, name, *arguments):
        given = ["--experiment", "tiny", "--out", "results/tiny", "--model", "model", *arguments]
        return inside(place, options, f"workflow.jobs.{name}", *given)

    return run
