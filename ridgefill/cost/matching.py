"""Break-evens with POP, and the tail at which no fill costs what a fill does."""

from __future__ import annotations

from ridgefill.cost.geometry import Geometry, check
from ridgefill.cost.prefill import fill_macs
from ridgefill.splits import pop_split

FOREVER = 2**40
"""Tokens beyond which a break-even is none."""


def pop_macs(g: Geometry, tokens: int) -> int:
    """POP as published: identity from two thirds of the depth, one exact row (paper section 2.5)."""
    return fill_macs(g, tokens=tokens, split=pop_split(g.layers), tail=1, fill="identity")


def crossover_with_pop(g: Geometry, split: int, tail: int, *, mapped_split_layer: bool = True) -> int | None:
    """Fewest tokens at which the ridge fill costs less than POP; None when it never does.

    From ``tail`` on, POP's cost minus the fill's is a parabola in the tokens that starts below zero and
    opens upwards exactly when ``split`` lies below POP's, so there is one crossing to bisect for. (Where all
    layers in between are windowed or recurrent it becomes a line.)
    """
    if split >= pop_split(g.layers):
        return None

    def cheaper(tokens: int) -> bool:
        cost = fill_macs(g, tokens=tokens, split=split, tail=tail, mapped_split_layer=mapped_split_layer)
        return cost < pop_macs(g, tokens)

    low, high = max(1, tail), max(2, 2 * tail)
    while not cheaper(high):
        # Windowed layers cost no more than linear, so without a layer that sees all rows POP may stay cheaper.
        if high > FOREVER:
            return None
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cheaper(middle) else (middle, high)
    return high


def match_no_fill_tail(g: Geometry, tokens: int, split: int, target_macs: int) -> tuple[int, int]:
    """The tail, 1 to ``tokens``, at which no fill costs closest to ``target_macs``, and what it costs more.

    The residual (no-fill cost minus target, negative when cheaper) is at most half a late row, and half a chunk of
    recurrent layers, wherever the target lies between the costs of tail 1 and of exact. Ties go to the shorter tail.
    """
    check(g, tokens, split, 1)

    def excess(tail: int) -> int:
        return fill_macs(g, tokens=tokens, split=split, tail=tail, fill="none") - target_macs

    low, high = 1, tokens
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if excess(middle) >= 0 else (middle + 1, high)
    shorter = max(1, low - 1)
    tail = shorter if abs(excess(shorter)) <= abs(excess(low)) else low
    return tail, excess(tail)
