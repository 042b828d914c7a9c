"""The best setting that ``ridgefill tune`` found and could confirm: how much less work it is than exact prefill."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

from ridgefill.bench.row import Row
from ridgefill.errors import ResultsError

PAPERS_BEST = 1.60
"""The paper's fastest setting whose retrieval is non-inferior to exact, at 32K tokens."""
LEAST = 1.5


def rows(tuned: Path, models: Sequence[str]) -> Iterator[Row]:
    """A row for each of ``models``, from ``tune.json`` in the folder of its name below ``tuned``.

    The value is the ceiling by multiply-accumulates of the recommended setting, and there is none unless its retrieval
    was shown, on held-out samples, to be no worse than exact's by the margin. Raises ``ResultsError`` for a file that
    ``ridgefill tune`` did not write.
    """
    for model in models:
        yield _row(tuned / model / "tune.json", model)


def _row(path: Path, model: str) -> Row:
    name, what = f"best_{model}", f"speedup by work of the best setting of {model} that is non-inferior to exact"
    if not path.is_file():
        reason = (
            f"not searched: no {path}; type `ridgefill tune --model models/{model} --length 8192 --speedup {LEAST} "
            f"--out {path.parent}` (hours on two cores)"
        )
        return Row(name, what, nan, PAPERS_BEST, LEAST, limited=reason)
    try:
        found: Mapping[str, Any] = json.loads(path.read_text("utf-8"))
        tested, chosen = found["confirmation"]["test"], found["recommended"]
        shown, count = found["confirmation"]["shown"] is True, int(tested["n"])
        tokens, speedup = int(found["prompt_tokens"]), float(chosen["ceiling"])
        numbers = (float(tested["estimate"]), float(tested["bound"]), float(tested["margin"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{path} is not what `ridgefill tune` writes ({error!r}); delete it and search again"
        ) from error
    said = "held-out difference {:+.1f} points, at least {:+.1f}, margin {:.0f}".format(*numbers)
    limited = f"{chosen['candidate']} at {tokens} tokens: {said} (n = {count}): {'shown' if shown else 'NOT shown'}"
    return Row(name, what, speedup if shown else nan, PAPERS_BEST, LEAST, limited=limited)
