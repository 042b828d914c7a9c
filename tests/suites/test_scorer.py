"""Scores follow RULER's substring rules: strip, control characters to newlines, strip, lower case, substring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.scorer import clean, score

CASES = [  # prediction, references, all, part
    ("they are 11, 22", ["11", "22"], 1.0, 1.0),
    ("only 22", ["11", "22"], 0.5, 1.0),
    ("none", ["11", "22"], 0.0, 0.0),
    ("", ["11"], 0.0, 0.0),
    (" \n\t ", ["11"], 0.0, 0.0),
    ("PARIS", ["paris"], 1.0, 1.0),
    ("paris", ["PARIS"], 1.0, 1.0),
    ("straße", ["STRASSE"], 0.0, 0.0),
    ("1 1", ["11"], 0.0, 0.0),
    ("1\n1", ["11"], 0.0, 0.0),
    ("1\x001", ["11"], 0.0, 0.0),
    ("New\tYork", ["New York"], 0.0, 0.0),
    ("New\tYork", ["New\nYork"], 1.0, 1.0),
    ("New\x7fYork", ["New\x7fYork"], 1.0, 1.0),
    ("New York", ["New York "], 0.0, 0.0),
    ("\x00 New York \x1f", ["New York"], 1.0, 1.0),
    ("9119", ["11"], 1.0, 1.0),
    ("11", ["11", "1"], 1.0, 1.0),
    ("11", ["11", "11", "22"], 2 / 3, 1.0),
    ("a b c", ["a", "b", "x", "y"], 0.5, 1.0),
    ("the 1st of May", ["May 1", "1st of May"], 0.5, 1.0),
    ("no-one", ["no"], 1.0, 1.0),
    ("anything", [""], 1.0, 1.0),
]


@pytest.mark.parametrize(("prediction", "references", "everything", "any_of"), CASES)
def test_all_is_the_share_found_and_part_is_any(prediction, references, everything, any_of):
    """Case-insensitive substrings; ``all`` averages, ``part`` takes the best."""
    assert score(prediction, references) == everything
    assert score(prediction, references, "part") == any_of


@pytest.mark.parametrize(
    ("prediction", "cleaned"),
    [
        (" a\x00b\tc \x1f", "a\nb\nc"),
        ("\x00 a", "a"),
        ("a\x1fb\x1ec", "a\nb\nc"),
        ("\x01\x02", ""),
        ("a\r\nb", "a\n\nb"),
        ("a\x7f\x85b", "a\x7f\x85b"),
        ("\u00a0a\u2003", "a"),
        ("a\x00 ", "a"),
    ],
)
def test_control_characters_become_newlines_between_two_strips(prediction, cleaned):
    """Below the space only, after outer white space went; what that leaves outside goes as well."""
    assert clean(prediction) == cleaned


@given(st.text(), st.lists(st.text(min_size=1, max_size=3), min_size=1, max_size=4))
def test_scores_are_those_of_the_rule_written_character_by_character(prediction, references):
    """A slow reading of the rule: every place of the cleaned answer is tried for every reference."""
    stripped = "".join("\n" if ord(sign) < 32 else sign for sign in prediction.strip()).strip().lower()
    found = [
        any(stripped[place : place + len(one.lower())] == one.lower() for place in range(len(stripped) + 1))
        for one in references
    ]
    assert score(prediction, references) == sum(found) / len(found)
    assert score(prediction, references, "part") == max(map(float, found))


def test_no_reference_and_another_metric_are_errors():
    """Both end in one sentence."""
    with pytest.raises(TextError, match="without references"):
        score("x", [])
    with pytest.raises(ConfigError, match="no metric 'exact'"):
        score("x", ["x"], "exact")
