"""What the plugin costs a request that it does not fill: in one engine, by its methods and by the stock ones in turn.

Two processes of the same engine differ by some percent whatever runs in them, so a server that fills and a stock one
cannot tell a hundredth; two ways in one process can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import nan
from pathlib import Path

from ridgefill.bench.engines import Engine, EngineError, serving
from ridgefill.bench.prompts import random_ids
from ridgefill.bench.rivals import Request, vllm
from ridgefill.bench.row import Row, ratio_of
from ridgefill.progress import progress

PROMPT, NEW = 128, 16
NAME = "vllm_off"
WHAT = f"a prompt of {PROMPT} tokens and {NEW} new ones in vLLM: the plugin's methods over those they override"
TARGET = 1.01
_CACHE_BYTES = 1 << 28


def engine(root: Path, model: Path, maps: Path, request: Request) -> Engine:
    """vLLM with the plugin in the checkout ``root``. maps: a folder that fits the Hugging Face folder ``model``."""
    settings: Mapping[str, object] = {
        "model": str(model.absolute()), "context": request.context, "new": NEW, "memory": _CACHE_BYTES
    }  # fmt: skip
    return replace(vllm(root, model, request, maps=maps), driver="vllm_short", settings=settings)


def rows(asked: Engine, vocabulary: int, pairs: int) -> Iterator[Row]:
    """One row; without a value and with the reason where the engine is not there. The first five pairs do not count."""
    taken = []
    try:
        with serving(asked) as running, progress(pairs + 5, "short requests", "pairs") as bar:
            for number in range(pairs + 5):
                ids = random_ids(f"short {number}", PROMPT, vocabulary)
                seconds = {ours: running.ask([int(ours), *ids]) for ours in ((True, False), (False, True))[number % 2]}
                taken.append((seconds[True], seconds[False]))
                bar.update(1)
    except EngineError as error:
        yield Row(NAME, WHAT, nan, 1.0, TARGET, "less", limited=str(error))
        return
    ratio = ratio_of(taken[5:])
    ours, stock = (seconds * 1000 for seconds in ratio.seconds)
    said = f"{ours:.1f} ms and {stock:.1f} ms, medians of {pairs} pairs in one process"
    yield Row(NAME, WHAT, ratio.value, 1.0, TARGET, "less", limited=said, low=ratio.low, high=ratio.high)
