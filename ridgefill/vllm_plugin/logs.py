"""The lines a server writes about filling, and reading them back (``ridgefill doctor``). Imports no engine."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ridgefill.vllm_plugin.settings import Settings

logger = logging.getLogger("vllm.ridgefill")
"""Below the engine's own logger, so that its handlers and levels hold for these lines too."""

_READY = re.compile(r"RidgeFill is ready: (?P<what>.*)")
_FILLED = re.compile(r"RidgeFill filled (?P<rows>\d+) of \d+ rows")
_RESUMED = re.compile(r"RidgeFill: .* resumed \d+ positions from a filled cache, (?P<total>\d+) since the start")
_REFUSED = re.compile(r"ridgefill\.errors\.\w+Error: (?P<why>.*)")
_VERSION = re.compile(r"\bversion (?P<version>\d+\.\d+\S*)")


def say_ready(settings: Settings, folder: Path, model: str, split: int, layers: int, held: int) -> None:
    """One line when a model and its maps are loaded. held: bytes of memory that filling needs."""
    logger.info(
        "RidgeFill is ready: maps %s, model %s, split %d of %d layers, tail %d, at least %d rows before it%s, "
        "requests are %s unless they say otherwise, %.1f MiB of memory",
        folder,
        model,
        split,
        layers,
        settings.tail,
        settings.min_filled,
        f" (of them exact: {', '.join(settings.rows)})" if settings.rows else "",
        "filled" if settings.default else "exact",
        held / 2**20,
    )


def say_filled(request: str, rows: int, scheduled: int, computed: int, boundary: int) -> None:
    """One line for each filled chunk of a prompt."""
    logger.info(
        "RidgeFill filled %d of %d rows of request %s, from position %d; its tail begins at position %d",
        rows,
        scheduled,
        request,
        computed,
        boundary,
    )


def say_resumed(request: str, positions: int, total: int) -> None:
    """One line when a request begins with positions that an earlier one left in the prefix cache."""
    logger.info(
        "RidgeFill: request %s resumed %d positions from a filled cache, %d since the start", request, positions, total
    )


def say_odd_switch(value: object) -> None:
    """One line for a request whose switch means nothing."""
    logger.warning("RidgeFill: a request has ridgefill=%r, which is neither 1 nor 0; it runs exactly", value)


@dataclass(frozen=True)
class Log:
    """What a server's log tells: the ready line, the refusal, the engine's version, chunks, filled rows, resumed."""

    ready: str | None
    refused: str | None
    version: str | None
    chunks: int
    rows: int
    resumed: int


def read_log(lines: Iterable[str]) -> Log:
    """Read a log; of several starts in it the last one counts."""
    ready = refused = version = None
    chunks = rows = resumed = 0
    for line in lines:
        if match := _READY.search(line):
            ready, refused, chunks, rows, resumed = match["what"], None, 0, 0, 0
        elif match := _FILLED.search(line):
            chunks, rows = chunks + 1, rows + int(match["rows"])
        elif match := _RESUMED.search(line):
            resumed = int(match["total"])
        elif match := _REFUSED.search(line):
            refused, ready = match["why"].strip(), None
        elif version is None and (match := _VERSION.search(line)):
            version = match["version"]
    return Log(ready, refused, version, chunks, rows, resumed)
