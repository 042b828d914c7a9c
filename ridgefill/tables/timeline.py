"""The ledger's entries as a picture: one row per run, one bar per attempt, marks where the claim changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ridgefill.tables.history import Attempt, Event, History
from ridgefill.tables.style import INK, Panel, colour

PAUSE = 0.12
"""A pause longer than this share of the time in which something ran is drawn no longer than that."""
CLOSE = 0.55
"""Ticks nearer to each other than this many inches would overlap."""
LOOKS = {
    "registered": ("v", colour("ridgefill")),
    "amended": ("D", colour("identity")),
    "voided": ("X", colour("no_fill")),
}


@dataclass(frozen=True)
class Clock:
    """Seconds since the first event to places on the axis; a pause is as long as its part of the axis allows."""

    first: datetime
    seconds: tuple[float, ...]
    places: tuple[float, ...]
    pauses: tuple[tuple[float, float], ...]

    def at(self, time: datetime) -> float:
        """Place of ``time`` on the axis."""
        return float(np.interp((time - self.first).total_seconds(), self.seconds, self.places))


def timeline_panels(history: History | None) -> tuple[list[Panel], float]:
    """One panel and its height in inches; none without events."""
    if history is None or not history.events:
        return [], 0.0
    runs = list(dict.fromkeys(attempt.run for attempt in history.attempts))
    return [("", partial(_paint, history=history, runs=runs))], 1.25 + 0.3 * len(runs)


def clock(events: Sequence[Event], attempts: Sequence[Attempt]) -> Clock:
    """The axis for these events: time runs evenly while an attempt runs, and pauses are cut short."""
    first = min(event.time for event in events)
    seconds = sorted({(event.time - first).total_seconds() for event in events})
    busy = [
        ((one.start.time - first).total_seconds(), (one.end.time - first).total_seconds())
        for one in attempts
        if one.end is not None
    ]
    running = [any(a <= left and right <= b for a, b in busy) for left, right in pairwise(seconds)]
    lengths = [right - left for left, right in pairwise(seconds)]
    most = max(60.0, PAUSE * sum(length for length, on in zip(lengths, running, strict=True) if on))
    places, pauses = [0.0], []
    for length, on in zip(lengths, running, strict=True):
        shown = length if on else min(length, most)
        if shown < length:
            pauses.append((places[-1] + shown / 2, length))
        places.append(places[-1] + shown)
    return Clock(first, tuple(seconds), tuple(places), tuple(pauses))


def span_words(seconds: float) -> str:
    """A pause in words: ``19 min``, ``3 h``, ``2 d``."""
    unit, size = next((one for one in (("d", 86400), ("h", 3600)) if seconds >= 1.5 * one[1]), ("min", 60))
    return f"{seconds / size:.0f} {unit}"


def _paint(axis: Axes, first: bool, history: History, runs: Sequence[str]) -> None:
    time = clock(history.events, history.attempts)
    end = time.places[-1] or 1.0
    for attempt in history.attempts:
        row, left = runs.index(attempt.run), time.at(attempt.start.time)
        right = end if attempt.end is None else time.at(attempt.end.time)
        failed = attempt.end is None or attempt.end.what == "failed"
        shade = colour("no_fill") if failed else colour("ridgefill") if attempt.used else colour("exact")
        axis.barh(
            row, max(right - left, 0.004 * end), left=left, height=0.55, color=shade if attempt.used else "none",
            edgecolor=shade, lw=1.4, hatch="////" if failed else None,
        )  # fmt: skip
    for event in history.events:
        if event.what in LOOKS:
            marker, shade = LOOKS[event.what]
            axis.axvline(time.at(event.time), color=shade, lw=1.2)
            axis.plot([time.at(event.time)], [-0.85], marker, ms=8, color=shade, clip_on=False)
            axis.annotate(
                f"{event.what} ({event.entry})", (time.at(event.time), -0.85), (8, 0), textcoords="offset points",
                fontsize=8.5, va="center",
            )  # fmt: skip
    for place, length in time.pauses:
        axis.axvspan(place - 0.012 * end, place + 0.012 * end, color=INK, alpha=0.07, lw=0)
        axis.annotate(
            span_words(length), (place, (len(runs) - 1) / 2), rotation=90, ha="center", va="center", fontsize=8
        )
    axis.set_yticks(range(len(runs)), runs)
    axis.set_ylim(len(runs) - 0.2, -1.3)
    axis.set_xlim(-0.02 * end, 1.02 * end)
    axis.grid(axis="y", visible=False)
    _ticks(axis, time, history.events)


def _ticks(axis: Axes, time: Clock, events: Sequence[Event]) -> None:
    """The hour and minute of events, first and last ones first, as many as fit; the day where it changes."""
    end = time.places[-1] or 1.0
    figure = axis.figure
    width = figure.get_figwidth() if isinstance(figure, Figure) else 1.0
    # About an inch of the width is taken by the names of the runs.
    close = CLOSE * end / (width - 1.1)
    kept: list[tuple[float, datetime]] = []
    order = sorted(events, key=lambda event: (event.what not in LOOKS, event.what != "finished", event.time))
    for event in (max(events, key=lambda one: one.time), *order):
        place = time.at(event.time)
        if all(abs(place - other) > close for other, _ in kept):
            kept.append((place, event.time))
    kept.sort()
    texts, day = [], None
    for _, when in kept:
        texts.append(f"{when:%H:%M}" + (f"\n{when.day} {when:%b %Y}" if when.date() != day else ""))
        day = when.date()
    axis.set_xticks([place for place, _ in kept], texts)
    axis.set_xlabel("UTC")
