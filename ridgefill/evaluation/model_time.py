"""When a model was running: the time inside its modules, of one process or of all processes of a pipeline."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.files import replacing

ASKED = "RIDGEFILL_MODEL_TIME"
"""Environment variable that names a folder: each job then writes there when its model ran."""
GAP = 0.001
"""Seconds without a module that still count as the model's: rotation, caches and masks lie between its modules."""

Span = tuple[float, float]
"""Begin and end, in seconds of the machine's monotonic clock, which all its processes share."""


@contextmanager
def noting_model_time(environment: dict[str, str] | None = None) -> Iterator[None]:
    """Write the spans of every module call within the block to the folder that ``ASKED`` names; without it, nothing.

    Nothing is hooked then and PyTorch is not loaded, so ordinary runs are not slowed.
    """
    folder = (os.environ if environment is None else environment).get(ASKED)
    if not folder:
        yield
        return
    spans: list[Span] = []
    with _hooked(spans):
        yield
    Path(folder).mkdir(parents=True, exist_ok=True)
    with replacing(Path(folder) / f"{os.getpid()}.json") as temporary:
        temporary.write_text(json.dumps(spans), "utf-8")


@contextmanager
def _hooked(spans: list[Span]) -> Iterator[None]:
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    begun: list[float] = []

    def enter(*_: Any) -> None:
        begun.append(monotonic())

    def leave(*_: Any) -> None:
        begin, end = begun.pop(), monotonic()
        if begun:  # a module within a module
            return
        if spans and begin - spans[-1][1] < GAP:
            begin = spans.pop()[0]
        spans.append((begin, end))

    hooks = (register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def read_spans(folder: Path) -> list[Span]:
    """The spans of every process that wrote to ``folder``. Raises ``ResultsError`` for a file of another kind."""
    found: list[Span] = []
    for path in sorted(folder.glob("*.json")):
        try:
            found += [(float(begin), float(end)) for begin, end in json.loads(path.read_text("utf-8"))]
        except (OSError, ValueError, TypeError) as error:
            raise ResultsError(f"{path} holds no times of a model ({error}); delete it and run again") from error
    return found


def covered(spans: Iterable[Span]) -> float:
    """Seconds in which at least one of ``spans`` ran."""
    return sum(end - begin for begin, end in _merged(sorted(spans)))


def _merged(ordered: Sequence[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in ordered:
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
