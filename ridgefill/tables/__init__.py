"""Tables, figures and the report of a results folder: ``python -m ridgefill.tables results/NAME``."""

from __future__ import annotations

from ridgefill.tables.grid import Cell, Table, render_csv, render_markdown
from ridgefill.tables.render import Rendered, main_table_markdown, render, short_table_markdown

__all__ = [
    "Cell",
    "Rendered",
    "Table",
    "main_table_markdown",
    "render",
    "render_csv",
    "render_markdown",
    "short_table_markdown",
]
