"""Reports of published experiments, made anew into temporary folders, and one browser for all tests."""

import importlib.util
import shutil
from pathlib import Path

import pytest

from ridgefill.tables import render

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "data/results"
NAMES = ("smollm2_split19", "smollm2_suites")
_spec = importlib.util.spec_from_file_location("report_chromium", Path(__file__).with_name("chromium.py"))
chromium = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(chromium)


def made(name, folder):
    """A fresh report of one published experiment, with the notes and the ledger of this project."""
    copy = shutil.copytree(PUBLISHED / name, folder / name)
    render(copy, ROOT / "workflow/report/notes.yaml", ROOT / "data/ledger")
    return copy


@pytest.fixture(scope="session")
def fresh(tmp_path_factory):
    """Freshly made reports by name; shared, so tests must not write into them."""
    folder = tmp_path_factory.mktemp("reports")
    return {name: made(name, folder) for name in NAMES}


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium; skips where there is none."""
    binary = chromium.find_chromium()
    if binary is None:
        pytest.skip("no Chromium here: install one (Debian: apt-get install chromium) or name it in RIDGEFILL_CHROMIUM")
    running = chromium.Chromium(binary, tmp_path_factory.mktemp("profile"))
    yield running
    running.close()


@pytest.fixture(scope="session")
def root():
    """The project's root folder."""
    return ROOT


@pytest.fixture(scope="session")
def published():
    """The folder of published results."""
    return PUBLISHED
