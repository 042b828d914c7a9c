"""A small project with a claim, configs and an empty ledger, and the forger of bad entries."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

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
