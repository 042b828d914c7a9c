"""A million result rows answer a question, all of them counted; only a bound far above that is asserted."""

import json
from math import isnan
from pathlib import Path

import pytest

from ridgefill.bench.asking import AskSettings, many, rows
from ridgefill.cli import main

PUBLISHED = Path(__file__).parents[2] / "data/results"
MOST_SECONDS = 60


def test_a_hundred_thousand_rows_have_a_time():
    asked, opened = rows(AskSettings(PUBLISHED, 100_000, 1))
    assert "100,000 rows" in asked.what
    assert asked.value > 0
    assert opened.value > 0


def test_without_results_there_is_none(tmp_path):
    (row,) = rows(AskSettings(tmp_path))
    assert isnan(row.value)
    assert "no finished experiment" in row.limited


@pytest.mark.slow
def test_a_million_rows_are_asked_by_the_command(tmp_path, capsys):
    count = many(PUBLISHED / "smollm2_split19", tmp_path / "many", 1_000_000)
    assert count == 1_000_000
    assert main(["query", "--json", "--results", str(tmp_path / "many"), "select count(*) n from document_tokens"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [[1_000_000]]


@pytest.mark.slow
def test_a_million_rows_are_asked_in_time():
    asked, opened = rows(AskSettings(PUBLISHED))
    assert asked.value < MOST_SECONDS
    assert opened.value < MOST_SECONDS
