"""The README says what the published results say."""

import re
from pathlib import Path

import pytest

from workflow.publish import TABLES, marks, readme_with_table

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PLACES = re.findall(r"<!-- (\w+) table of (\w+): begin -->", README)
SHOWN = [(kind, name) for kind, name in PLACES if kind in ("main", "short")]


@pytest.mark.parametrize(("kind", "name"), SHOWN)
def test_the_readme_table_is_the_published_table(kind, name):
    """Rendered again from the published Parquet files, character for character."""
    table = TABLES[kind](ROOT / "data/results" / name)
    first, last = marks(name, kind)
    assert f"{first}\n{table.strip()}\n{last}" in README


@pytest.mark.parametrize(("kind", "name"), PLACES)
def test_every_table_is_the_published_one_or_says_that_there_is_none(kind, name):
    """Of any kind that publishing knows."""
    results = ROOT / "data/results" / name
    table = TABLES[kind](results) if results.is_dir() else "No such run is published yet."
    assert readme_with_table(README, name, table, kind) == README


@pytest.mark.parametrize(("kind", "name"), SHOWN)
def test_a_changed_number_in_the_readme_would_be_noticed(kind, name):
    """The table test can fail: another table gives another README."""
    table = TABLES[kind](ROOT / "data/results" / name)
    digit = re.search(r"\d", table)
    changed = table[: digit.start()] + str((int(digit[0]) + 1) % 10) + table[digit.end() :]
    assert readme_with_table(README, name, table, kind) == README
    assert readme_with_table(README, name, changed, kind) != README


def test_a_result_without_a_table_in_the_readme_changes_nothing():
    """Publishing another experiment leaves the page as it is."""
    assert readme_with_table(README, "another", "| a |") == README


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_every_file_the_readme_links_is_there(link):
    """Local links and pictures exist in the checkout."""
    assert (ROOT / link).exists()


def test_the_marks_appear_once():
    """One place for each generated table."""
    assert SHOWN
    assert [README.count(mark) for kind, name in PLACES for mark in marks(name, kind)] == [1, 1] * len(PLACES)
