"""Finished items of an interrupted evaluation are found again, and only those that still count."""

import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ridgefill.evaluation.parts import Parts


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False), max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
def test_a_stored_item_comes_back_exactly(tmp_path, payload):
    """Property: every finite float survives bit for bit."""
    parts = Parts(tmp_path, "f")
    parts.put("item", payload)
    assert parts.get("item") == payload


def test_an_unknown_item_has_to_be_computed(tmp_path):
    """Nothing stored, nothing returned; the folder need not exist."""
    assert Parts(tmp_path / "none", "f").get("item") is None


def test_an_item_of_another_configuration_is_not_used(tmp_path):
    """Another fingerprint (configuration, maps, model or registration) means computing it again."""
    Parts(tmp_path, "old").put("item", {"score": 1.0})
    assert Parts(tmp_path, "new").get("item") is None
    assert Parts(tmp_path, "old").get("item") == {"score": 1.0}


@pytest.mark.parametrize("damage", ["", "{", '{"fingerprint": "f", "payl', "[1]", "null", "\x00\xff"])
def test_a_damaged_item_is_computed_again(tmp_path, damage):
    """A half-written or foreign file never becomes a row."""
    parts = Parts(tmp_path, "f")
    parts.put("item", {"score": 1.0})
    (tmp_path / "item.json").write_bytes(damage.encode("latin-1"))
    assert parts.get("item") is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_number_that_is_not_one_is_never_stored(tmp_path, bad):
    """NaN and infinity are refused and leave no file."""
    with pytest.raises(ValueError, match="JSON compliant"):
        Parts(tmp_path, "f").put("item", {"score": bad})
    assert list(tmp_path.iterdir()) == []
