"""The figure of a search: retrieval and key-token loss against work, the front, and what held-out data say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes

from ridgefill.files import replacing
from ridgefill.tables.style import INK, SETTINGS, Panel, colour, draw, save
from ridgefill.tuning.confirm import Confirmation
from ridgefill.tuning.front import pareto
from ridgefill.tuning.search import Found, Trial

BESIDE = 0.4
"""Points of work by which held-out marks stand beside development's."""
BLUE, FAINT, AMBER = colour("ridgefill"), "#b3bac3", "#c8553d"


def draw_search(folder: Path, found: Found, checked: Confirmation, budget: float) -> list[str]:
    """Write ``front.svg`` and ``front.png``; returns their names."""
    panels: list[Panel] = [
        ("Retrieval in the filled region", partial(_retrieval, found=found, checked=checked, budget=budget))
    ]
    if any(one.key_loss is not None for one in found.finalists):
        panels.append(("Loss on key tokens", partial(_losses, found=found, checked=checked, budget=budget)))
    names = []
    with mpl.rc_context(SETTINGS):
        figure = draw(panels, 3.6, True, 2)
        for kind in ("svg", "png"):
            names.append(f"front.{kind}")
            with replacing(folder / names[-1]) as temporary:
                temporary.write_bytes(save(figure, kind, "tune"))
    return names


def _retrieval(axis: Axes, first: bool, *, found: Found, checked: Confirmation, budget: float) -> None:
    finalists = {one.candidate.key for one in found.finalists}
    dropped = [one for one in found.trials.values() if one.candidate.key not in finalists]
    axis.plot(*_at(dropped, [one.quality for one in dropped]), "o", ms=4, color=FAINT, label="tried on few samples")
    shown = list(found.finalists)
    axis.plot(*_at(shown, [one.quality for one in shown]), "o", ms=6, color=BLUE, label="last round, development")
    front = pareto([one.point for one in shown])
    axis.plot(
        [100 * one.share for one in front], [one.quality for one in front], "-", lw=1.6, color=BLUE, label="front"
    )
    axis.axhline(
        sum(found.exact) / len(found.exact), ls="--", lw=1.2, color=colour("exact"), label="exact, development"
    )
    chosen = found.chosen
    _ring(axis, chosen, chosen.quality)
    test = checked.retrieval
    _held_out(axis, chosen, test.estimate, test.ci_low, test.ci_high)
    beside = 100 * chosen.share + BESIDE, checked.exact.estimate
    axis.plot(*beside, "D", ms=6, mfc="none", mew=1.5, color=colour("exact"), label="exact, held out")
    axis.set_ylabel("points")
    axis.set_ylim(-6, 106)
    _finish(axis, found, budget)
    axis.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.22), ncols=2)


def _losses(axis: Axes, first: bool, *, found: Found, checked: Confirmation, budget: float) -> None:
    shown = [one for one in found.finalists if one.key_loss is not None]
    axis.plot(*_at(shown, [one.key_loss or 0.0 for one in shown]), "o", ms=6, color=BLUE)
    if found.chosen.key_loss is not None:
        _ring(axis, found.chosen, found.chosen.key_loss)
    if checked.key_loss is not None:
        one = checked.key_loss
        _held_out(axis, found.chosen, one.estimate, one.ci_low, one.ci_high)
    axis.set_ylabel("nats above exact")
    axis.set_ylim(bottom=min(0.0, axis.get_ylim()[0]))
    _finish(axis, found, budget)


def _at(trials: Sequence[Trial], values: Sequence[float]) -> tuple[list[float], list[float]]:
    return [100 * one.share for one in trials], list(values)


def _ring(axis: Axes, trial: Trial, value: float) -> None:
    axis.plot(100 * trial.share, value, "o", ms=13, mfc="none", mew=1.8, color=INK, label="recommended")


def _held_out(axis: Axes, trial: Trial, value: float, low: float, high: float) -> None:
    """The recommended setting on held-out data, a little to the right so that it does not hide the development dot."""
    errors = [[max(0.0, value - low)], [max(0.0, high - value)]]
    look: dict[str, Any] = {"fmt": "D", "ms": 6, "capsize": 3, "color": AMBER, "label": "held out, 95\u00a0%"}
    axis.errorbar(100 * trial.share + BESIDE, value, yerr=errors, **look)


def _finish(axis: Axes, found: Found, budget: float) -> None:
    """What both panels share: the budget, and one range of work."""
    shares = [budget, *(one.share for one in found.trials.values())]
    axis.set_xlim(100 * min(shares) - 1.5, 100 * max(shares) + 1.5)
    axis.axvline(100 * budget, ls=":", lw=1.4, color=INK)
    axis.annotate(
        "budget", (100 * budget, 0.02), (-3, 0), xycoords=("data", "axes fraction"), textcoords="offset points",
        fontsize=8, color=INK, ha="right",
    )  # fmt: skip
    axis.set_xlabel("% of exact prefill's multiply-accumulates")
