"""The README says what the published results say."""

import re
from pathlib import Path

import pytest

from ridgefill.tables import main_table_markdown
from workflow.publish import MARKS, readme_with_table

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PUBLISHED = ROOT / "data/results/smollm2_split19"


def test_the_readme_table_is_the_published_table():
    """Rendered again from the published Parquet files, character for character."""
    assert main_table_markdown(PUBLISHED).strip() in README


def test_a_changed_number_in_the_readme_would_be_noticed():
    """The table test can fail: another table gives another README."""
    table = main_table_markdown(PUBLISHED)
    digit = re.search(r"\d", table)
    changed = table[: digit.start()] + str((int(digit[0]) + 1) % 10) + table[digit.end() :]
    assert readme_with_table(README, table) == README
    assert readme_with_table(README, changed) != README


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_every_file_the_readme_links_is_there(link):
    """Local links and pictures exist in the checkout."""
    assert (ROOT / link).exists()


def test_the_marks_appear_once():
    """One place for the generated table."""
    assert [README.count(mark) for mark in MARKS] == [1, 1]
