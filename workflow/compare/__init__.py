"""Two results folders of one experiment, row by row: what is equal, what is rounding, what is neither."""

from __future__ import annotations

from workflow.compare.folders import Comparison, compare

__all__ = ["Comparison", "compare"]
