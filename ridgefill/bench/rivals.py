"""Time to first token beside what a user would run instead: the same model's exact prefill in vLLM and in llama.cpp.

Every engine is a process in an environment of its own, loaded once, idle while it is not asked. Each repeat asks all of
them and us for one new token, one after the other, each with a prompt of its own, in an order that turns. An engine's
seconds are taken in its own process around the request, so they hold its scheduling, and not the pipe to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median

import torch

from ridgefill.bench.engines import Engine, EngineError, Serving, serving
from ridgefill.bench.prompts import random_ids
from ridgefill.bench.row import Row, ratio_of
from ridgefill.evaluation.clocks import Clock, device_clock, timed
from ridgefill.evaluation.speed import stock_prefill
from ridgefill.models.load import load_any
from ridgefill.pretrained import RidgeFillMaps
from ridgefill.progress import progress
from ridgefill.vllm_plugin.settings import VARIABLE

TARGETS = {4096: 1.2, 8192: 1.35}
"""Prompt length to how many times faster than the better engine a filled prefill must be."""
TAIL = 512
OURS = "RidgeFill"
INSIDE = "RidgeFill in vLLM"
EXACT = "RidgeFill's exact"
ROWS = {OURS: "ttft_engines", INSIDE: "ttft_in_vllm"}
"""Our ways to a first token, and the rows that hold them against the better engine."""
# vLLM starts with a KV cache of this size, several times what one prompt of a small model needs.
_CACHE_BYTES = 2 << 30

Prefill = Callable[[Sequence[int]], object]
"""Token ids of a prompt to anything that is there once the first new token is."""


@dataclass(frozen=True)
class Request:
    """Sizes that all sides share. context: most tokens of a request. vocabulary: ids are drawn below it."""

    threads: int
    context: int
    vocabulary: int


def vllm(root: Path, model: Path, request: Request, batch: int = 8192, maps: Path | None = None) -> Engine:
    """vLLM in the checkout ``root``, serving the Hugging Face folder ``model``. batch: most tokens of one step. maps:
    folder of maps that this project's plugin fills with; without, the engine is the stock one.

    It runs inside its driver's process, so that it gets all threads: a server keeps one core for itself. Its guide
    says to load Intel's OpenMP first; threads sleep after 5 ms without work, as vLLM sets them itself in a server.
    """
    home = root / ".venv-vllm"
    openmp = home / "lib" / "libiomp5.so"
    return Engine(
        name="vLLM" if maps is None else INSIDE,
        python=home / "bin" / "python",
        driver="vllm_prefill",
        build="make vllm-setup",
        settings={
            "model": str(model.absolute()),
            "context": request.context,
            "batch": batch,
            "memory": _CACHE_BYTES,
        },
        environment={
            VARIABLE: "" if maps is None else json.dumps({"maps": str(maps.absolute()), "tail": TAIL}),
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_CACHE_ROOT": str(home / "cache"),
            "VLLM_CONFIG_ROOT": str(home / "config"),
            "HF_HUB_OFFLINE": "1",
            "KMP_BLOCKTIME": "5",
            "OMP_NUM_THREADS": str(request.threads),
            **({"LD_PRELOAD": str(openmp)} if openmp.is_file() else {}),
        },
        files=[model] if maps is None else [model, maps],
    )


def llama(root: Path, gguf: Path, request: Request, batch: int = 512, flash: bool = True) -> Engine:
    """llama.cpp in the checkout ``root``. gguf: the model's file as fetched, which is written again in bf16 once."""
    home = root / ".venv-llama"
    return Engine(
        name="llama.cpp",
        python=home / "bin" / "python",
        driver="llama_prefill",
        build="make llama",
        settings={
            "model": str((home / "models" / f"{gguf.stem}.bf16.gguf").absolute()),
            "source": str(gguf.absolute()),
            "context": request.context,
            "batch": batch,
            "threads": request.threads,
            "flash": flash,
        },
        environment={"OMP_NUM_THREADS": str(request.threads)},
        files=[gguf],
    )


def rows(
    filled: Prefill,
    exact: Prefill,
    engines: Sequence[Engine],
    request: Request,
    clock: Clock,
    lengths: Sequence[int] = tuple(TARGETS),
    repeats: int = 5,
) -> Iterator[Row]:
    """Rows for each of ``lengths``: the better engine's seconds over ours, and over ours in vLLM if that is asked.

    An engine that is not there, stops or answers nonsense leaves its length's value, and all that follow, NaN; the row
    says why, and what the others took.
    """
    failures: dict[str, str] = {}
    ways = [OURS] + [engine.name for engine in engines if engine.name == INSIDE]
    with ExitStack() as stack:
        loaded = []
        for engine in engines:
            try:
                loaded.append(stack.enter_context(serving(engine)))
            except EngineError as error:
                failures[engine.name] = str(error)
        for length in lengths:
            sides: dict[str, Callable[[Sequence[int]], float]] = {
                OURS: lambda ids: timed(lambda: filled(ids), clock)[1],
                EXACT: lambda ids: timed(lambda: exact(ids), clock)[1],
                **{one.engine.name: one.ask for one in loaded if one.engine.name not in failures},
            }
            taken = _alternate(sides, length, request.vocabulary, repeats, failures)
            yield from (_row(way, length, taken, failures, _described(loaded)) for way in ways)


def _alternate(
    sides: Mapping[str, Callable[[Sequence[int]], float]],
    length: int,
    vocabulary: int,
    repeats: int,
    failures: dict[str, str],
) -> dict[str, list[float]]:
    """Seconds of every side, one untimed round and then ``repeats`` timed ones; a side that fails is left out.

    failures: gets the sentence of a side that failed.
    """
    taken: dict[str, list[float]] = {name: [] for name in sides}
    with progress(repeats + 1, f"engines {length}", "rounds") as bar:
        for number in range(repeats + 1):
            names = list(taken)
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                ids = random_ids(f"{length} {number} {name}", length, vocabulary)
                try:
                    taken[name].append(sides[name](ids))
                except EngineError as error:
                    failures[name] = str(error)
                    del taken[name]
            bar.update(1)
    return {name: seconds[1:] for name, seconds in taken.items()}


def _row(way: str, length: int, taken: Mapping[str, list[float]], failures: Mapping[str, str], described: str) -> Row:
    """The row of one of our ways and one length, from seconds by side. described: the engines that were loaded."""
    middle = {name: median(seconds) for name, seconds in taken.items()}
    others = {name: seconds for name, seconds in middle.items() if name not in (*ROWS, EXACT)}
    said = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in sorted(middle.items(), key=lambda one: one[1]))
    filled = "ours filled" if way == OURS else f"{way}, filled"
    what = f"first token after {length} tokens: the better engine's exact prefill over {filled} ({described})"
    name, target = f"{ROWS[way]}_{length}", TARGETS.get(length, 1.0)
    missing = [why for side, why in failures.items() if side == way or side not in ROWS]
    if missing or not others:
        why = "; ".join(missing) or "no engine was named"
        return Row(name, what, nan, 1.0, target, limited=f"{why}. Taken: {said}")
    better = min(others, key=lambda one: others[one])
    ratio = ratio_of(list(zip(taken[better], taken[way], strict=True)))
    limited = f"{better} is the better engine; {said}"
    return Row(name, what, ratio.value, 1.0, target, limited=limited, low=ratio.low, high=ratio.high)


def _described(loaded: Sequence[Serving]) -> str:
    """Engines with their versions and settings, as they say themselves."""
    return "; ".join(", ".join(f"{key} {value}" for key, value in one.ready.items()) for one in loaded) or "none loaded"


def measured(root: Path, model: Path, gguf: Path, maps: Path, threads: int, repeats: int) -> Iterator[Row]:
    """``rows`` for the checkout ``root`` with a model folder, its GGUF file and its maps, in bf16 on our side too."""
    loaded = load_any(str(model), "bfloat16")
    fitted = RidgeFillMaps.from_pretrained(maps)
    config = loaded.network.config.get_text_config()
    request = Request(threads, int(config.max_position_embeddings) + 256, int(config.vocab_size))

    def filled(ids: Sequence[int]) -> int:
        return int(fitted.prefill(loaded.network, torch.tensor([ids]), tail=TAIL).logits.argmax())

    def exact(ids: Sequence[int]) -> int:
        with torch.inference_mode():
            return int(stock_prefill(loaded.adapter, torch.tensor([ids])).logits.argmax())

    engines = (vllm(root, model, request), vllm(root, model, request, maps=maps), llama(root, gguf, request))
    return rows(filled, exact, engines, request, device_clock(loaded.adapter.device), repeats=repeats)
