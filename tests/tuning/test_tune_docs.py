"""The page on tuning shows what the command has."""

import re
from pathlib import Path

import pytest

from ridgefill import cli
from ridgefill.tuning.confirm import MARGIN, least_samples
from ridgefill.tuning.store import CANDIDATES, MAPS, OUTCOME

PAGE = (Path(__file__).parents[2] / "docs" / "tune.md").read_text("utf-8")


def test_every_option_of_the_page_exists_and_none_is_left_out(capsys):
    """As ``--help`` lists them."""
    with pytest.raises(SystemExit):
        cli.main(["tune", "--help"])
    known = set(re.findall(r"--[a-z][a-z-]*", capsys.readouterr().out)) - {"--help"}
    assert set(re.findall(r"--[a-z][a-z-]*", PAGE)) == known


def test_numbers_and_files_of_the_page_are_the_commands():
    """The margin, the samples that it needs, and what is written."""
    assert f"less than {MARGIN:g} points below" in PAGE
    assert f"fewer than {least_samples(MARGIN)} held-out samples" in PAGE
    assert all(f"`{name}`" in PAGE for name in (CANDIDATES, OUTCOME, MAPS))
