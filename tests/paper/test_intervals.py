"""Claims about what a printed number can stand for, and about formulas over such numbers."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.errors import ResultsError
from ridgefill.paper.derive import evaluate
from ridgefill.paper.intervals import Interval, attainable, point, printed

HERE = Path()
numbers = st.fractions(-50, 50, max_denominator=200)


@st.composite
def intervals(draw):
    low = draw(numbers)
    return Interval(low, low + draw(st.fractions(0, 5, max_denominator=200)))


def inside(interval, share):
    return interval.low + (interval.high - interval.low) * share


shares = st.fractions(0, 1, max_denominator=20)


def test_a_printed_decimal_stands_for_half_a_unit_either_way():
    """0.024 may be anything from 0.0235 to 0.0245; 0.50 knows more than 0.5; 0.000 has no sign."""
    assert printed("0.024") == Interval(Fraction("0.0235"), Fraction("0.0245"))
    assert printed("0.50") == Interval(Fraction("0.495"), Fraction("0.505"))
    assert printed("-16") == Interval(Fraction("-16.5"), Fraction("-15.5"))
    assert printed("0.000") == printed("-0.000")


def test_a_count_is_exact():
    """503 items are 503, but a decimal of a counted unit is still rounded."""
    assert printed("503", measured=False) == point(503)
    assert not printed("1.5", measured=False).exact


@pytest.mark.parametrize("text", ["", "1,2", "16K; 32K", "nan", "Infinity"])
def test_what_is_no_decimal_number_is_refused(text):
    """A list, a word or a NaN is no number to compute with."""
    with pytest.raises(ValueError, match="expected"):
        printed(text)


@given(intervals(), intervals(), shares, shares)
def test_arithmetic_holds_every_result(a, b, s, t):
    """Whatever numbers the two stand for, the result of each operation lies in the result's interval."""
    x, y = inside(a, s), inside(b, t)
    for name, value in (("+", x + y), ("-", x - y), ("*", x * y)):
        found = evaluate(f"{{a}} {name} {{b}}", {"a": a, "b": b}, HERE)
        assert found.low <= value <= found.high
    if b.low <= 0 <= b.high:
        with pytest.raises(ZeroDivisionError):
            a / b
    else:
        found = a / b
        assert found.low <= x / y <= found.high


@given(intervals(), intervals())
def test_arithmetic_holds_no_more_than_it_must(a, b):
    """The ends of a sum, a difference and a product are reached by ends of the operands."""
    ends = [(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    assert {(a * b).low, (a * b).high} <= {x * y for x, y in ends}
    assert {(a - b).low, (a - b).high} <= {x - y for x, y in ends}


@given(intervals())
def test_a_number_that_occurs_twice_is_one_number(a):
    """x - x is zero and not an interval around it."""
    assert evaluate("{a} - {a}", {"a": a}, HERE) == point(0)


def test_a_share_of_a_gap_is_as_narrow_as_its_corners():
    """(s - r) / (e - r) with r on both sides: 8 corners give the interval, plain interval arithmetic a wider one."""
    s, r, e = printed("2.0"), printed("1.0"), printed("4.0")
    found = evaluate("({s} - {r}) / ({e} - {r})", {"s": s, "r": r, "e": e}, HERE)
    corners = [(x - y) / (z - y) for x in (s.low, s.high) for y in (r.low, r.high) for z in (e.low, e.high)]
    assert found == Interval(min(corners), max(corners))
    wide = (s - r) / (e - r)
    assert wide.low < found.low
    assert wide.high > found.high


@given(st.integers(1, 300), st.data())
def test_a_score_of_whole_parts_is_found_within_its_printed_value(parts, data):
    """Every multiple of 100 / parts, printed with one decimal, is among those attainable, and all of them print so."""
    exact = Fraction(100 * data.draw(st.integers(0, parts)), parts)
    shown = printed(f"{float(exact):.1f}")
    found = attainable(shown, parts)
    assert found is not None
    assert shown.low <= found.low <= exact <= found.high <= shown.high
    assert (found.low * parts / 100).denominator == 1


def test_a_value_between_all_attainable_ones_has_none():
    """138 samples in quarters reach 79.5 and 79.7, never 79.6."""
    assert attainable(printed("79.6"), 552) is None
    assert attainable(printed("79.5"), 552) == point(Fraction(100 * 439, 552))


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("{nothing} + 1", "'nothing', which is not among"),
        ("{a} +", "no arithmetic"),
        ("{a} ** 2", "expected numbers"),
        ("__import__('os')", "expected numbers"),
        ("{a}.low", "expected numbers"),
        ("binomial_floor({a})", "whole number is expected"),
    ],
)
def test_a_formula_is_arithmetic_and_nothing_else(formula, message):
    """Unknown numbers, broken syntax, attributes and calls of anything else are refused."""
    with pytest.raises(ResultsError, match=message):
        evaluate(formula, {"a": printed("1.5")}, HERE)
