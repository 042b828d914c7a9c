"""Material of searches: points with scores, texts of made-up words, and a scorer that needs no model."""

import runpy
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MATERIAL = runpy.run_path(str(TESTS / "end_to_end" / "material.py"))


@pytest.fixture(scope="session")
def prose():
    """``prose(seed, words)``: sentences of made-up words; two seeds share no run of 50."""
    return MATERIAL["prose"]


@pytest.fixture(scope="session")
def naive():
    """The slow rules of ``tests/naive/tuning.py`` by name."""
    return runpy.run_path(str(TESTS / "naive" / "tuning.py"))
