"""The README says what the published results say."""

import re
from pathlib import Path

import pytest

from ridgefill.tables import main_table_markdown
from workflow.publish import TABLES, marks, readme_with_table

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SHOWN = re.findall(r"<!-- main table of (\w+): begin -->", README)


@pytest.mark.parametrize("name", SHOWN)
def test_the_readme_table_is_the_published_table(name):
    """Rendered again from the published Parquet files, character for character."""
    table = main_table_markdown(ROOT / "data/results" / name)
    assert f"{marks(name)[0]}\n{table.strip()}\n{marks(name)[1]}" in README


@pytest.mark.parametrize(("kind", "name"), re.findall(r"<!-- (\w+) table of (\w+): begin -->", README))
def test_every_table_is_the_published_one_or_says_that_there_is_none(kind, name):
    """Of any kind that publishing knows."""
    results = ROOT / "data/results" / name
    table = TABLES[kind](results) if results.is_dir() else "No such run is published yet."
    assert readme_with_table(README, name, table, kind) == README


@pytest.mark.parametrize("name", SHOWN)
def test_a_changed_number_in_the_readme_would_be_noticed(name):
    """The table test can fail: another table gives another README."""
    table = main_table_markdown(ROOT / "data/results" / name)
    digit = re.search(r"\d", table)
    changed = table[: digit.start()] + str((int(digit[0]) + 1) % 10) + table[digit.end() :]
    assert readme_with_table(README, name, table) == README
    assert readme_with_table(README, name, changed) != README


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
    assert [README.count(mark) for name in SHOWN for mark in marks(name)] == [1, 1] * len(SHOWN)
