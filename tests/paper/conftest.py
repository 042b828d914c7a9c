"""The published numbers, read once."""

from pathlib import Path

import pytest

from ridgefill.paper.files import load_paper

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def paper():
    return load_paper(ROOT)
