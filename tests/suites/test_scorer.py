"""Scores follow RULER's substring rules."""

import pytest

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.scorer import clean, score


@pytest.mark.parametrize(
    ("prediction", "references", "everything", "any_of"),
    [
        ("they are 11, 22", ["11", "22"], 1.0, 1.0),
        ("only 22", ["11", "22"], 0.5, 1.0),
        ("none", ["11", "22"], 0.0, 0.0),
        ("", ["11"], 0.0, 0.0),
        ("PARIS", ["paris"], 1.0, 1.0),
        ("1 1", ["11"], 0.0, 0.0),
        ("9119", ["11"], 1.0, 1.0),
    ],
)
def test_all_is_the_share_found_and_part_is_any(prediction, references, everything, any_of):
    """Case-insensitive substrings; ``all`` averages, ``part`` takes the best."""
    assert score(prediction, references) == everything
    assert score(prediction, references, "part") == any_of


def test_control_characters_become_newlines():
    """Control characters never hide inside an answer; outer space goes."""
    assert clean(" a\x00b\tc \x1f") == "a\nb\nc"


def test_no_reference_and_another_metric_are_errors():
    """Both end in one sentence."""
    with pytest.raises(TextError, match="without references"):
        score("x", [])
    with pytest.raises(ConfigError, match="no metric 'exact'"):
        score("x", ["x"], "exact")
