"""The page on reliability names a test for every fault, and every test of faults is on the page."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reliability.md").read_text(encoding="utf-8")
HERE = Path(__file__).parent
ROW = re.compile(r"^\| (?!fault|---)(?P<fault>[^|]+) \|[^|]+\|[^|]+\| (?P<tests>[^|]+) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
FAULTS = (
    "kill -9 of a running job", "kill -9 of Snakemake", "kill -9 of its children", "full disk: capture",
    "full disk: fit", "full disk: Parquet", "full disk: ledger", "read-only results", "truncated safetensors",
    "truncated Parquet", "truncated GGUF", "model file swapped", "clock set back", "two users", "Ctrl-C",
    "Unicode and spaces", "symbolic link", "no network",
)  # fmt: skip
"""What the page must have a line for."""


def rows():
    """Fault and tests of every line."""
    return [(row["fault"].strip(), TEST.findall(row["tests"])) for row in ROW.finditer(PAGE)]


def defined_in(path):
    """Names of the tests that a file defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")}


def test_every_fault_has_a_line_and_every_line_a_test_that_exists():
    """No fault is missing, no cell is empty, and no test is named that is not there."""
    lines = rows()
    assert len(lines) == len([line for line in PAGE.splitlines() if line.startswith("| ")]) - 1
    for fault in FAULTS:
        assert [line for line, _ in lines if fault in line], fault
    for fault, tests in lines:
        assert tests, f"no test for {fault}"
        for file, name in tests:
            assert (ROOT / "tests" / file).is_file(), file
            assert name in defined_in(ROOT / "tests" / file), f"{file} has no {name}"


def test_every_test_of_faults_is_in_the_table():
    """A test that is added here is named on the page, too."""
    named = {(file, name) for _, tests in rows() for file, name in tests}
    here = {
        (f"faults/{path.name}", name)
        for path in HERE.glob("test_*.py")
        if path.name != Path(__file__).name
        for name in defined_in(path)
    }
    assert here - named == set()
    assert len(here) > 20
