"""One kind of progress bar for everything that takes long."""

from __future__ import annotations

import sys
from typing import Any

from tqdm import tqdm


def progress(total: int, stage: str, unit: str, *, delay: float = 0.0) -> Any:
    """A progress bar on the terminal with the time left; in a log file, a line now and then.

    delay: seconds before it shows, so that short work stays silent.
    """
    quiet = not sys.stderr.isatty()
    return tqdm(
        total=total,
        desc=stage,
        unit=unit,
        file=sys.stderr,
        mininterval=10 if quiet else 0.5,
        delay=delay,
        ncols=88,
        nrows=24,
        ascii=" =",
        bar_format="{desc:<10} {percentage:3.0f}% |{bar}| {n_fmt}/{total_fmt} {unit}, {elapsed} gone, {remaining} left"
        + ("\n" if quiet else ""),
    )
