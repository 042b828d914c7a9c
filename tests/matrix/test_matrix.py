"""The matrix names gates that exist, and takes its ends from what the project says it supports."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = runpy.run_path(str(Path(__file__).with_name("run.py")))


def test_every_gate_is_a_file_with_tests():
    for gate in RUN["GATES"]:
        assert re.search(r"^def test_", (ROOT / gate).read_text(), re.MULTILINE), gate


def test_the_oldest_transformers_is_the_projects_lower_bound():
    assert RUN["oldest_transformers"]('"transformers>=5.24,<5.25"') == "5.24.0"
    assert RUN["oldest_transformers"]('"transformers>=5.20.1"') == "5.20.1"
    assert RUN["oldest_transformers"]((ROOT / "pyproject.toml").read_text())
    with pytest.raises(SystemExit):
        RUN["oldest_transformers"]("nothing")


def test_the_newest_transformers_is_the_one_that_is_pinned():
    assert RUN["newest_transformers"]("torch==2.13.0\ntransformers==5.24.3\n") == "5.24.3"
    assert RUN["newest_transformers"]((ROOT / "constraints.txt").read_text())
    with pytest.raises(SystemExit):
        RUN["newest_transformers"]("sentence-transformers==1.0\n")


def test_the_ends_of_both_ranges_are_combined():
    made = RUN["combinations"](["python3.11", "python3.12", "python3.13"], ["5.24.0", "5.24.3"])
    assert [(one.python, one.transformers) for one in made] == [
        ("python3.11", "5.24.0"), ("python3.11", "5.24.3"), ("python3.13", "5.24.0"), ("python3.13", "5.24.3")
    ]  # fmt: skip
    assert len(RUN["combinations"](["python3.11"], ["5.24.0", "5.24.3"])) == 2
    assert len(RUN["combinations"](["python3.11", "python3.13"], ["5.24.0", "5.24.0"])) == 2
    assert len({one.folder for one in made}) == 4
