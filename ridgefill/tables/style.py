"""How figures look: one palette that reads on light and dark, sizes, and deterministic saving."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INK, RULE = "#22262b", "#d5d9de"
ARM_COLOURS = {
    "exact": "#7d858f",
    "no_fill": "#c8553d",
    "identity": "#d98a1f",
    "ridgefill": "#2f7fd6",
    "pop_native": "#8d6cc0",
    "ridgefill_rows": "#159a86",
    "ridgefill_random_rows": "#6fae5f",
    "ridgefill_longer_tail": "#45a3c7",
    "no_fill_longer_tail": "#cf8478",
}
SEQUENCE = ("#d98a1f", "#6fae5f", "#2f7fd6", "#8d6cc0", "#c8553d", "#159a86")
SETTINGS: dict[Any, Any] = {
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.8,
    "svg.fonttype": "none",
}
WIDE, NARROW = 8.6, 4.3

Panel = tuple[str, Callable[[Axes, bool], None]]


def colour(arm: str) -> str:
    """An arm's colour, grey for an arm without one."""
    return ARM_COLOURS.get(arm, "#7d858f")


def draw(panels: Sequence[Panel], height: float, wide: bool, per_row: int, narrow_per_row: int = 1) -> Figure:
    """A figure of titled panels: ``per_row`` beside each other when wide, ``narrow_per_row`` when narrow."""
    columns = min(len(panels), per_row if wide else narrow_per_row)
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(WIDE if wide else NARROW, height * lines), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for index, axis in enumerate(axes):
        if index >= len(panels):
            axis.set_visible(False)
            continue
        title, paint = panels[index]
        axis.set_title(title)
        # Only the first panel of a row carries the names that all of them share.
        paint(axis, index % columns == 0)
    # The layout is solved once; every later save keeps it.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def save(figure: Figure, kind: str, salt: str) -> bytes:
    """The figure as ``png`` or ``svg`` bytes, the same on every run: no dates, fixed element ids."""
    sink = io.BytesIO()
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    with mpl.rc_context({"svg.hashsalt": salt}):
        figure.savefig(sink, format=kind, dpi=160, metadata=metadata)
    return sink.getvalue()


def inline(svg: bytes, words: str, size: str) -> str:
    """An SVG to embed: no background, the page's ink, rules and font, scaled to its box."""
    text = svg.decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = text.replace(INK, "currentColor").replace(RULE, "var(--rule)").replace("fill: #ffffff", "fill: none")
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "var(--sans)", text)
    # Coordinates to a hundredth of a point; labels (which follow a ">") stay as they are.
    text = re.sub(r"(?<=[ \"(,])(-?\d+\.\d\d)\d+", r"\1", text)
    head = f'<svg class="{size}" role="img" aria-label="{words}" '
    return re.sub(r' (width|height)="[\d.]+pt"', "", text.replace("<svg ", head, 1), count=2)
