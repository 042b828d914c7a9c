"""A small project with a claim, configs and an empty ledger, and the forger of bad entries."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from ledger.branches import create_branch
from ledger.launch import Attempt, find_registration, launch
from ledger.registration import register
from ledger.seeds import run_seed

CLAIM = """\
who: "A. Person"
title: "Ridge beats identity"
hypothesis: "A fitted map keeps needles that a copied state loses."
experiment: demo
arms: [exact, identity, ridgefill]
overrides:
  dtype: [bfloat16]
runs:
  - id: capture
    configs: [workflow/config/model.yaml]
  - id: ruler
    configs: [workflow/config/model.yaml, workflow/config/demo.yaml]
predictions:
  - id: h1
    says: "ridge beats identity"
    rule: {metric: ruler_filled, arm: ridgefill, baseline: identity, set: {model: m, split: 19}, \
statistic: ci_low, op: ">", threshold: "0"}
    min_n: 30
    missing: undecided
"""
CLAIM_PATH = "workflow/claims/demo.yaml"


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project root with the claim and its two configs, no ledger yet."""
    _write(tmp_path / CLAIM_PATH, CLAIM)
    _write(tmp_path / "workflow/config/model.yaml", "name: m\n")
    _write(tmp_path / "workflow/config/demo.yaml", "title: demo\n")
    return tmp_path


@pytest.fixture
def claim_text() -> str:
    """The text of a valid claim."""
    return CLAIM


@pytest.fixture
def write() -> Callable[[Path, str], Path]:
    """Write a text file, making its folders."""
    return _write


@pytest.fixture
def shared_ledger(project: Path) -> Path:
    """A project whose main has: 0 genesis, 1 register demo, 2 start and 3 result of its ruler run with a
    published output, 4 a start without result, 5 register other, which never ran.
    """
    ledger = create_branch(project, "main", "test/main", "ours")
    register(project, ledger, project / CLAIM_PATH)
    found = find_registration(project, ["main"], Path(CLAIM_PATH))
    results = project / "data/results/demo"
    with launch(project, "main", found, "ruler") as attempt:
        output = _write(results / "ruler/summary.json", "{}\n")
        attempt.finish([output], results, [output])
    fields = {key: value for key, value in (attempt.start.body or {}).items() if key not in ("origin", "time")}
    ledger.append("start", {**fields, "label": "again", "seed": str(run_seed(found.leaf, "ruler/again"))})
    other = _write(project / "workflow/claims/other.yaml", CLAIM.replace("experiment: demo", "experiment: other"))
    register(project, ledger, other)
    return project


def _module(name: str) -> ModuleType:
    path = Path(__file__).parents[1] / "bad_ledgers" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def forging() -> ModuleType:
    """Tools that write entries past every check."""
    return _module("forging")


@pytest.fixture
def bad_ledgers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The builder of the bad ledgers."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "bad_ledgers")
    return _module("build")


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A copy of the golden project with every kind of entry; its entries are listed in bad_ledgers/full.py."""
    root = tmp_path / "full"
    shutil.copytree(Path(__file__).parents[1] / "bad_ledgers" / "full", root)
    return root


@pytest.fixture
def measured(forging: ModuleType) -> Callable[..., Attempt]:
    """Run ``ruler`` of the demo claim so that it leaves scores of the named arms, one item each, as Parquet.

    ``measured(project, {"ridgefill": [2.0, None], ...}, branch="local", metadata={...})``.
    """

    def run(
        project: Path,
        values: Mapping[str, Sequence[float | None]],
        branch: str = "local",
        metadata: dict[str, str] | None = None,
        name: str = "scores.parquet",
    ) -> Attempt:
        rows = [
            {"metric": "ruler_filled", "arm": arm, "item": f"q{number}", "value": value}
            for arm, found in values.items()
            for number, value in enumerate(found)
        ]
        base = project / ("data/results" if branch == "main" else "results") / "demo"
        found = find_registration(project, ["local", "main"], Path(CLAIM_PATH))
        with launch(project, branch, found, "ruler") as attempt:
            forging.write_table(base / name, rows, {"run_seed": str(attempt.seed)} if metadata is None else metadata)
            attempt.finish([name], base, published=[name])
        return attempt

    return run
