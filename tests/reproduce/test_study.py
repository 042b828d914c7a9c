"""The page of the study says what the published results say."""

from pathlib import Path

import pytest

from ridgefill.errors import ResultsError
from workflow.reproduce.study import PAGE, PLACE, filled

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / PAGE).read_text("utf-8")


def test_the_page_is_what_its_places_ask_for():
    """Written again it is the same; else: python -m workflow.reproduce.study."""
    assert PLACE.search(TEXT)
    assert filled(TEXT, ROOT) == TEXT


def test_a_changed_number_or_verdict_would_be_noticed():
    """The test above can fail: what stands between the marks is written anew."""
    spoilt = TEXT.replace("| supported |", "| refuted |", 1)
    assert spoilt != TEXT
    assert filled(spoilt, ROOT) == TEXT


@pytest.mark.parametrize(
    ("asked", "message"),
    [("nobodys_study P1", "nobodys_study, which is not published"), ("smollm2_arms P99", "P99 of smollm2_arms")],
)
def test_what_is_not_published_is_refused(asked, message):
    """One sentence with the experiment, or its prediction."""
    with pytest.raises(ResultsError, match=message):
        filled(f"<!-- found: {asked} -->\n<!-- end -->", ROOT)
