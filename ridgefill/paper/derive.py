"""Formulas over published numbers, and whether a published number follows from the others.

A formula is arithmetic over numbers in braces, named as in :mod:`ridgefill.paper.data`, with a few functions of
the paper's own statistics and costs: ``{Table 8: a b c} / {Table 8: d e f}``. It is evaluated over everything
that prints as those numbers, so its result is an interval; the published number follows when some number that
prints as it lies in there. A number used twice is the same both times.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path

from ridgefill import cost, stats
from ridgefill.errors import ResultsError
from ridgefill.paper.data import Derivation, Paper
from ridgefill.paper.intervals import Interval, hull, point
from ridgefill.splits import pop_split

REFERENCE = re.compile(r"\{([^{}]+)\}")
Operation = Callable[[Interval, Interval], Interval]
OPERATIONS: dict[type[ast.operator], Operation] = {
    ast.Add: Interval.__add__,
    ast.Sub: Interval.__sub__,
    ast.Mult: Interval.__mul__,
    ast.Div: Interval.__truediv__,
}


@dataclass(frozen=True)
class Outcome:
    """A derivation with both sides: everything that prints as the number, and everything the formula can give."""

    derivation: Derivation
    published: Interval
    derived: Interval

    @property
    def holds(self) -> bool:
        """Whether the two share a number."""
        return self.published.meets(self.derived)


def check(derivation: Derivation, numbers: Mapping[str, Interval], root: Path) -> Outcome:
    """Evaluate one derivation over ``Paper.numbers()``; ResultsError for what is no number or no arithmetic."""
    if derivation.target not in numbers:
        raise ResultsError(f"a derivation is about {derivation.target!r}, which is not among the paper's numbers")
    derived = evaluate(derivation.formula, numbers, root)
    return Outcome(derivation, numbers[derivation.target], derived)


def check_all(paper: Paper) -> Iterator[Outcome]:
    """Every derivation, in the order of the file."""
    numbers = paper.numbers()
    return (check(derivation, numbers, paper.root) for derivation in paper.derivations)


def evaluate(formula: str, known: Mapping[str, Interval], root: Path) -> Interval:
    """What ``formula`` can be when each name in braces is any number of its interval in ``known``.

    Names that occur twice are tried at both their ends, which is exact as long as the formula rises or falls
    throughout in each of them; in the others interval arithmetic is exact. ``root`` holds workflow/config.
    """
    names = list(dict.fromkeys(REFERENCE.findall(formula)))
    missing = [name for name in names if name not in known]
    if missing:
        raise ResultsError(f"the formula {formula!r} names {missing[0]!r}, which is not among the paper's numbers")
    places = {name: f"_{index}" for index, name in enumerate(names)}
    code = REFERENCE.sub(lambda match: places[match[1]], formula)
    try:
        body = ast.parse(code.strip(), mode="eval").body
    except SyntaxError as error:
        raise ResultsError(f"the formula {formula!r} is no arithmetic ({error.msg})") from error
    repeated = [name for name in names if formula.count(f"{{{name}}}") > 1]
    found = []
    for ends in product(*((known[name].low, known[name].high) for name in repeated)):
        values = {places[name]: known[name] for name in names}
        values |= {places[name]: point(end) for name, end in zip(repeated, ends, strict=True)}
        found.append(_value(body, values, root))
    return hull([end for one in found for end in (one.low, one.high)])


def _value(node: ast.expr, values: Mapping[str, Interval], root: Path) -> Interval:
    """The interval of one syntax node; decimals in a formula are exact."""
    match node:
        case ast.Constant(value=int() | float() as number):
            return point(Fraction(repr(number)))
        case ast.Name(id=name) if name in values:
            return values[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_value(inner, values, root)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
            return OPERATIONS[type(op)](_value(left, values, root), _value(right, values, root))
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str() as model), *rest]) if name in OF_MODELS:
            return point(OF_MODELS[name](root, model, *(_whole(_value(one, values, root)) for one in rest)))
        case ast.Call(func=ast.Name(id=name), args=arguments) if name in FUNCTIONS | OF_COUNTS:
            return _called(name, [_value(one, values, root) for one in arguments])
    raise ResultsError(f"a formula holds {ast.unparse(node)!r}; expected numbers, + - * / and the known functions")


def _called(name: str, arguments: Sequence[Interval]) -> Interval:
    if name in FUNCTIONS:
        return FUNCTIONS[name](*arguments)
    return point(OF_COUNTS[name](*(_whole(one) for one in arguments)))


def _whole(found: Interval) -> int:
    if not found.exact or found.low.denominator != 1:
        raise ResultsError(f"a formula gives {float(found.middle)} where a whole number is expected")
    return int(found.low)


def _rising(function: Callable[[Fraction], float | Fraction]) -> Callable[[Interval], Interval]:
    return lambda one: Interval(Fraction(function(one.low)), Fraction(function(one.high)))


def _mean(*items: Interval) -> Interval:
    return _sum(*items) / point(len(items))


def _sum(*items: Interval) -> Interval:
    return Interval(sum((one.low for one in items), Fraction(0)), sum((one.high for one in items), Fraction(0)))


def _size(one: Interval) -> Interval:
    return one if one.low >= 0 else -one if one.high <= 0 else Interval(Fraction(0), max(-one.low, one.high))


def _nearest(one: Interval, parts: Interval) -> Interval:
    """The multiple of 100 / ``parts`` closest to a printed percentage."""
    step = 100 / parts.middle
    return point(round(one.middle / step) * step)


@cache
def _geometry(root: Path, model: str) -> cost.Geometry:
    from ridgefill.config import cost_geometry, load_model

    return cost_geometry(load_model(model, root))


def _crossover(root: Path, model: str, split: int, tail: int) -> int:
    """Tokens, to the first multiple of 100, from which the fill costs less than POP."""
    found = cost.crossover_with_pop(_geometry(root, model), split, tail)
    if found is None:
        raise ResultsError(f"the fill of {model} at split {split} never costs less than POP")
    return math.ceil(found / 100) * 100


def _against_pop(root: Path, model: str, split: int, tail: int, tokens: int) -> float:
    """Multiply-accumulates of the fill over those of POP."""
    g = _geometry(root, model)
    return cost.fill_macs(g, tokens=tokens, split=split, tail=tail) / cost.pop_macs(g, tokens)


FUNCTIONS: dict[str, Callable[..., Interval]] = {
    "mean": _mean,
    "total": _sum,
    "size": _size,
    "least": lambda *items: Interval(min(one.low for one in items), min(one.high for one in items)),
    "most": lambda *items: Interval(max(one.low for one in items), max(one.high for one in items)),
    "nearest": _nearest,
    "log": _rising(math.log),
    "floor": _rising(math.floor),
    "ceil": _rising(math.ceil),
}
# Of whole numbers: the paper's statistics and layer counts.
OF_COUNTS: dict[str, Callable[..., float]] = {
    "binomial_floor": stats.binomial_floor,
    "sign_test": stats.sign_test,
    "layer_share": cost.layer_share,
    "pop_split": pop_split,
}
# Of a configured model's shape.
OF_MODELS: dict[str, Callable[..., float]] = {"crossover": _crossover, "against_pop": _against_pop}
