"""Canonical JSON: one value has one byte string, and nothing else is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from ledger.canonical import canonical, parse_strict
from ledger.errors import FormatError

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "jcs"
CASES = ["arrays", "french", "structures", "unicode", "values", "weird"]

scalars = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)


@pytest.mark.parametrize("case", CASES)
def test_rfc8785_cases_give_the_published_bytes(case: str) -> None:
    """The library canonicalises every conformance case to the published bytes, floats included."""
    if not VECTORS.is_dir():
        pytest.skip("the conformance vectors are not beside this checkout")
    value = json.loads((VECTORS / "input" / f"{case}.json").read_bytes())
    produced = rfc8785.dumps(value)
    assert produced == (VECTORS / "output" / f"{case}.json").read_bytes()
    assert produced == bytes.fromhex((VECTORS / "outhex" / f"{case}.txt").read_text())


@pytest.mark.parametrize("case", CASES)
def test_strict_reader_accepts_published_bytes_unless_they_hold_floats(case: str) -> None:
    """Published canonical bytes parse to the published value; the ones with fractions are refused."""
    if not VECTORS.is_dir():
        pytest.skip("the conformance vectors are not beside this checkout")
    data = (VECTORS / "output" / f"{case}.json").read_bytes()
    if case == "values":
        with pytest.raises(FormatError, match="found the number"):
            parse_strict(data)
    else:
        assert parse_strict(data) == json.loads(data)


@given(values)
def test_parsing_inverts_canonicalisation(value: object) -> None:
    """parse_strict(canonical(x)) is x, and canonicalising again gives the same bytes."""
    try:
        data = canonical(value)
    except FormatError as failure:  # lone surrogates have no UTF-8 spelling
        assert failure.code == "bad_text"  # noqa: PT017
        return
    assert parse_strict(data) == value
    assert canonical(parse_strict(data)) == data


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"a":1}', "duplicate_key"),
        (b'{"a":{"b":1,"b":2}}', "duplicate_key"),
        (b'{"a":1.0}', "float"),
        (b'{"a":1e5}', "float"),
        (b'{"a":NaN}', "float"),
        (b'{"a":-Infinity}', "float"),
        (b'{"a":-0}', "not_canonical"),
        (b'{"a": 1}', "not_canonical"),
        (b'{"b":1,"a":1}', "not_canonical"),
        (b'{"a":1}\n', "not_canonical"),
        (b'{"a":1}\r\n', "not_canonical"),
        (b'{"a":"\\u0041"}', "not_canonical"),
        (b'{"a":"\\/"}', "not_canonical"),
        (b'\xef\xbb\xbf{"a":1}', "bad_json"),
        (b'{"a":"\xff"}', "not_utf8"),
        (b'{"a":"\\ud800"}', "bad_text"),
        (b'{"a":9007199254740992}', "bad_number"),
        (b'{"a":' + b"9" * 5000 + b"}", "bad_json"),
        (b'{"a":01}', "bad_json"),
        (b"[" * 100000, "bad_json"),
        (b"", "bad_json"),
        (b'{"a":1}{"a":1}', "bad_json"),
    ],
)
def test_other_spellings_are_refused_by_name(data: bytes, code: str) -> None:
    """Every way to write a value differently, or to write what is no value, has its own refusal."""
    with pytest.raises(FormatError) as refusal:
        parse_strict(data)
    assert refusal.value.code == code


@pytest.mark.parametrize("value", [1.0, float("nan"), {"a": [0.5]}, {1: "a"}, {"a": b"x"}, 2**53, {"a": {1}}])
def test_values_outside_the_format_cannot_be_written(value: object) -> None:
    """Floats, huge integers and foreign types never reach an entry."""
    with pytest.raises(FormatError):
        canonical(value)


def test_line_separator_u2028_is_plain_text() -> None:
    """U+2028 needs no escape in JSON and survives unchanged."""
    assert parse_strict(canonical({"a": "x\u2028y"})) == {"a": "x\u2028y"}
