"""Every family of benchmark rows, by name, in the order in which they are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path

from ridgefill.bench import (
    arms_cost,
    asking,
    demo,
    fitting,
    moments,
    prefill,
    recomputing,
    rivals,
    searched,
    short_requests,
    statistics,
)
from ridgefill.bench.row import Row
from ridgefill.vllm_plugin.fitting import read_config


@dataclass(frozen=True)
class Places:
    """Where a benchmark finds what it measures. root: the checkout. model, maps: folders of the model whose prefill is
    timed. gguf: the file the model came in, for the engines that read one. results: published experiments.
    tuned: folders that ``ridgefill tune`` filled, by model."""

    root: Path
    model: Path
    maps: Path
    gguf: Path | None
    results: Path
    tuned: Path


@dataclass(frozen=True)
class Wish:
    """How to measure. lengths: prompt tokens of the speed rows. device: where the model's rows run."""

    repeats: int = 5
    threads: int = 2
    lengths: Sequence[int] = (2048, 4096, 8192)
    device: str = "cpu"


TUNED = ("smollm2-135m-instruct", "gemma3-270m")
Family = Callable[[Places, Wish], Iterator[Row]]


def _prefill(part: str) -> Family:
    def measured(places: Places, wish: Wish) -> Iterator[Row]:
        settings = prefill.PrefillSettings(
            places.model, places.maps, lengths=wish.lengths, repeats=wish.repeats, device=wish.device, only=(part,)
        )
        prefill.require(settings)
        return prefill.rows(settings)

    return measured


def _engines(places: Places, wish: Wish) -> Iterator[Row]:
    if places.gguf is None or not places.model.is_dir() or not places.maps.is_dir():
        reason = "not measured: needs the model's folder, its GGUF file and its maps; build the demo first"
        yield Row("ttft_engines", "first token beside vLLM and llama.cpp", nan, 1.0, nan, limited=reason)
        return
    yield from rivals.measured(places.root, places.model, places.gguf, places.maps, wish.threads, wish.repeats)


def _plugin(places: Places, wish: Wish) -> Iterator[Row]:
    if not places.model.is_dir() or not places.maps.is_dir():
        reason = "not measured: needs the model's folder and its maps; build the demo first"
        yield Row(short_requests.NAME, short_requests.WHAT, nan, 1.0, nan, "less", limited=reason)
        return
    vocabulary = int(read_config(places.model)["vocab_size"])
    request = rivals.Request(wish.threads, 1024, vocabulary)
    engine = short_requests.engine(places.root, places.model, places.maps, request)
    yield from short_requests.rows(engine, vocabulary, 20 * wish.repeats)


FAMILIES: dict[str, Family] = {
    "ttft": _prefill("ttft"),
    "rows": _prefill("rows"),
    "off": _prefill("off"),
    "memory": _prefill("memory"),
    "engines": _engines,
    "plugin": _plugin,
    "moments": lambda places, wish: moments.rows(moments.CaptureSettings(wish.repeats, model=places.model)),
    "fit": lambda places, wish: fitting.rows(fitting.FitSettings(wish.repeats)),
    "arms": lambda places, wish: arms_cost.rows(arms_cost.ArmsSettings(places.model, wish.repeats)),
    "bootstrap": lambda places, wish: statistics.rows(statistics.BootstrapSettings()),
    "best": lambda places, wish: searched.rows(places.tuned, TUNED),
    "demo": lambda places, wish: demo.rows(demo.DemoSettings(places.root, threads=wish.threads)),
    "query": lambda places, wish: asking.rows(asking.AskSettings(places.results)),
    "recompute": lambda places, wish: recomputing.rows(recomputing.RecomputeSettings(places.results)),
}
"""Name -> what measures it."""
ON_DEVICE = ("ttft", "rows", "off", "memory")
"""Families that run the model where ``Wish.device`` says; the others measure the processor."""
