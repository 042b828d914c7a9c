"""Prefill against the stock model's own forward pass: speed, fill off, and memory, all as a user would call it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ridgefill.bench.prompts import random_ids
from ridgefill.bench.row import Ratio, Row, alternate, ratio_of
from ridgefill.cost import Geometry, ceiling, exact_macs, fill_macs, geometry_of, ranking_layers
from ridgefill.errors import ConfigError, ModelError
from ridgefill.evaluation.clocks import Clock, device_clock, peak_bytes
from ridgefill.generation.options import ATTENTION_SHARE
from ridgefill.models.load import load_any
from ridgefill.models.sizes import sizes_of
from ridgefill.passes import run_exact
from ridgefill.pretrained import RidgeFillMaps
from ridgefill.tuning.candidates import Candidate

PARTS = ("ttft", "rows", "off", "memory")
OFF_MOST = 1.02
ROWS_SHARE = 0.9


@dataclass(frozen=True)
class PrefillSettings:
    """What is measured. model, maps: folders. lengths: prompt tokens. scattered: share of a prompt's tokens that are
    exact rows besides the tail, at random. rows_length, off_length, memory_length: prompt
    tokens of those rows. only: which of ``PARTS``."""

    model: Path
    maps: Path
    lengths: Sequence[int] = (2048, 4096, 8192)
    dtypes: Sequence[str] = ("float32", "bfloat16")
    tail: int = 512
    repeats: int = 5
    device: str = "cpu"
    scattered: float = 0.25
    rows_length: int = 4096
    off_length: int = 2048
    memory_length: int = 8192
    only: Sequence[str] = PARTS


@dataclass(frozen=True)
class _Subject:
    """A loaded model in one type, its maps, and how its prompts are made."""

    settings: PrefillSettings
    dtype: str
    model: Any
    adapter: Any
    maps: RidgeFillMaps
    geometry: Geometry
    clock: Clock

    def prompts(self, tokens: int) -> Callable[[int], Tensor]:
        """Number of a request to its prompt, int64 ``[1, tokens]``: no two alike, nothing to reuse."""
        vocabulary = int(self.model.get_input_embeddings().num_embeddings)

        def prompt(number: int) -> Tensor:
            return torch.tensor([random_ids(f"{tokens} {number}", tokens, vocabulary)])

        return prompt

    def stock(self, ids: Tensor) -> Any:
        """The stock model's own prefill with a cache and the last row's logits."""
        return self.model(ids.to(self.adapter.device), use_cache=True, logits_to_keep=1)

    def filled(self, ids: Tensor, rows: str | Sequence[int] | None = None) -> Any:
        """Ours, into a stock cache."""
        return self.maps.prefill(self.model, ids, tail=self.settings.tail, rows=rows)

    def macs(self, tokens: int, rows: Sequence[int] = ()) -> int:
        """Multiply-accumulates of a filled prefill by the cost model."""
        return fill_macs(
            self.geometry,
            tokens=tokens,
            split=self.maps.split,
            tail=self.settings.tail,
            exact_rows=rows,
            mapped_split_layer=False,
        )


def rows(settings: PrefillSettings) -> Iterator[Row]:
    """All rows of prefill, one model type after the other; without the model or its maps, one row that says so."""
    if not settings.model.is_dir() or not settings.maps.is_dir():
        missing = settings.model if not settings.model.is_dir() else settings.maps
        reason = f"not measured: no folder {missing}; build the demo first, or name another with --model and --maps"
        yield Row("ttft", "time to first token", nan, nan, nan, limited=reason)
        return
    for dtype in settings.dtypes:
        subject = _loaded(settings, dtype)
        with torch.inference_mode():
            if "ttft" in settings.only:
                yield from (_ttft(subject, tokens) for tokens in settings.lengths)
            if dtype != settings.dtypes[0]:
                continue
            if "rows" in settings.only:
                yield from _exact_rows(subject)
            if "off" in settings.only:
                yield _off(subject)
            if "memory" in settings.only:
                yield _memory(subject)


def _loaded(settings: PrefillSettings, dtype: str) -> _Subject:
    loaded = load_any(str(settings.model), dtype, settings.device)
    maps = RidgeFillMaps.from_pretrained(settings.maps)
    maps.check(loaded.adapter)
    sizes = sizes_of(loaded.network.config.get_text_config())
    geometry = geometry_of(sizes, str(loaded.adapter.fingerprint["family"]))
    return _Subject(
        settings, dtype, loaded.network, loaded.adapter, maps, geometry, device_clock(loaded.adapter.device)
    )


def _ttft(subject: _Subject, tokens: int) -> Row:
    prompt = subject.prompts(tokens)
    ratio = _speedup(subject, tokens, lambda number: subject.filled(prompt(number)), f"{subject.dtype} {tokens}")
    limit = ceiling(subject.macs(tokens) / exact_macs(subject.geometry, tokens))
    return _against(
        f"ttft_{subject.dtype}_{tokens}",
        f"first token after {tokens} tokens, {subject.dtype}: stock forward over filled prefill, split "
        f"{subject.maps.split}, tail {subject.settings.tail}",
        ratio,
        limit,
        limit,
    )


def _exact_rows(subject: _Subject) -> Iterator[Row]:
    """Filled prefills with exact rows beside the tail; the target is a share of the ceiling with those rows."""
    settings, tokens = subject.settings, subject.settings.rows_length
    prefix = tokens - settings.tail
    prompt, full = subject.prompts(tokens), exact_macs(subject.geometry, tokens)
    scattered = sorted(random.Random(tokens).sample(range(prefix), round(settings.scattered * tokens)))
    ratio = _speedup(subject, tokens, lambda number: subject.filled(prompt(number), scattered), "scattered")
    limit = ceiling(subject.macs(tokens, scattered) / full)
    what = f"the same at {tokens} with {settings.scattered:.0%} of the tokens as exact rows"
    yield _against("ttft_rows_scattered", f"{what}, scattered", ratio, limit, ROWS_SHARE * limit)
    what = f"the same at {tokens} with {ATTENTION_SHARE:.0%} of the tokens as exact rows, by attention"
    if not ranking_layers(subject.geometry, subject.maps.split):
        reason = f"not measured: no layer below split {subject.maps.split} of this model ranks rows by attention"
        yield Row("ttft_rows_attention", what, nan, nan, nan, limited=reason)
        return
    ratio = _speedup(subject, tokens, lambda number: subject.filled(prompt(number), "attention"), "attended")
    picked = Candidate(subject.maps.split, settings.tail, ATTENTION_SHARE)
    limit = ceiling(picked.share(subject.geometry, tokens))
    yield _against("ttft_rows_attention", what, ratio, limit, ROWS_SHARE * limit)


def _off(subject: _Subject) -> Row:
    """Our own pass over all layers beside the stock forward, which it has to equal bit for bit."""
    tokens = subject.settings.off_length
    prompt = subject.prompts(tokens)

    def ours(number: int) -> Tensor:
        done = run_exact(subject.adapter, prompt(number))
        logits: Tensor = subject.adapter.logits(done.hidden[:, -1:])
        return logits

    pairs = alternate(
        ours, lambda number: subject.stock(prompt(number)), subject.settings.repeats, subject.clock, "fill off"
    )
    ratio = ratio_of(pairs)
    what = f"fill off at {tokens} tokens, {subject.dtype}: our pass over the stock forward, which it equals bit for bit"
    if not torch.equal(ours(0), subject.stock(prompt(0)).logits):
        return Row("fill_off", what, nan, 1.0, OFF_MOST, "less", "the logits differ, so the times compare nothing")
    limited = f"{ratio.seconds[0]:.2f} s against {ratio.seconds[1]:.2f} s"
    return Row("fill_off", what, ratio.value, 1.0, OFF_MOST, "less", limited, ratio.low, ratio.high)


def _memory(subject: _Subject) -> Row:
    tokens = subject.settings.memory_length
    prompt, device = subject.prompts(tokens), subject.adapter.device
    stock = peak_bytes(lambda: subject.stock(prompt(0)), [device])
    filled = peak_bytes(lambda: subject.filled(prompt(0)), [device])
    weights = subject.maps.maps.weights
    maps = sum(weights[layer].numel() * weights[layer].element_size() for layer in weights)
    what = f"most bytes that tensors take in a filled prefill of {tokens} tokens, over exact's and the maps"
    limited = f"{filled / 2**20:,.0f} MiB against {stock / 2**20:,.0f} MiB and {maps / 2**20:,.0f} MiB of maps"
    return Row("peak_memory", what, filled / (stock + maps), 1.0, 1.0, "less", limited)


def _speedup(subject: _Subject, tokens: int, filled: Callable[[int], object], stage: str) -> Ratio:
    prompt = subject.prompts(tokens)
    # Another prompt on each side of a pair as well, or the second would find the first's token rows in the cache.
    pairs = alternate(
        lambda number: subject.stock(prompt(-1 - number)), filled, subject.settings.repeats, subject.clock, stage
    )
    return ratio_of(pairs)


def _against(name: str, what: str, ratio: Ratio, limit: float, target: float) -> Row:
    limited = (
        f"arithmetic: the ceiling is {limit:.3f} and {ratio.value / limit:.1%} of it was reached "
        f"({ratio.seconds[0]:.2f} s against {ratio.seconds[1]:.2f} s)"
    )
    return Row(name, what, ratio.value, limit, target, "more", limited, ratio.low, ratio.high)


def require(settings: PrefillSettings) -> None:
    """Raise ``ConfigError`` for prompts that hold nothing to fill."""
    shortest = min([*settings.lengths, settings.rows_length, settings.memory_length])
    if shortest <= settings.tail:
        raise ConfigError(
            f"a prompt of {shortest} tokens is no longer than the tail of {settings.tail}; take longer ones"
        )
    if settings.device != "cpu" and not torch.cuda.is_available():
        raise ModelError(f"device {settings.device!r} was asked for and PyTorch finds no CUDA device; use --device cpu")
