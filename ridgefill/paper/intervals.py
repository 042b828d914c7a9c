"""What a printed number can stand for: exact intervals of rational numbers, and arithmetic on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction


@dataclass(frozen=True)
class Interval:
    """All numbers from ``low`` to ``high``, both included."""

    low: Fraction
    high: Fraction

    @property
    def middle(self) -> Fraction:
        """Half way; of a printed number, the number itself."""
        return (self.low + self.high) / 2

    @property
    def exact(self) -> bool:
        """Whether there is only one number in it."""
        return self.low == self.high

    def meets(self, other: Interval) -> bool:
        """Whether some number lies in both."""
        return self.low <= other.high and other.low <= self.high

    def __add__(self, other: Interval) -> Interval:
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval) -> Interval:
        return self + -other

    def __mul__(self, other: Interval) -> Interval:
        return hull([a * b for a in (self.low, self.high) for b in (other.low, other.high)])

    def __truediv__(self, other: Interval) -> Interval:
        """Quotient; ZeroDivisionError when the divisor can be zero."""
        if other.low <= 0 <= other.high:
            raise ZeroDivisionError("a divisor can be zero within what was printed")
        return self * Interval(1 / other.high, 1 / other.low)


def hull(numbers: Sequence[Fraction]) -> Interval:
    """The smallest interval that holds them."""
    return Interval(min(numbers), max(numbers))


def point(number: float | Fraction) -> Interval:
    """One number."""
    exact = Fraction(number)
    return Interval(exact, exact)


def printed(text: str, measured: bool = True) -> Interval:
    """What rounds to the decimal ``text``: half a unit of its last digit either way, ends included.

    A whole number of counted things (not ``measured``) is exact. ValueError when it is no decimal number.
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"found {text!r} where a decimal number was expected") from None
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"found {text!r} where a finite number was expected")
    value = Fraction(number)
    half = Fraction(10) ** min(exponent, 0) / 2 if measured or exponent < 0 else Fraction(0)
    return Interval(value - half, value + half)


def attainable(found: Interval, parts: int) -> Interval | None:
    """The part of ``found`` between its first and last multiple of 100 / ``parts``; None when it holds none."""
    first, last = math.ceil(found.low * parts / 100), math.floor(found.high * parts / 100)
    return Interval(Fraction(100 * first, parts), Fraction(100 * last, parts)) if first <= last else None
