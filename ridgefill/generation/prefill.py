"""A filled prefill of a batch of prompts into a stock transformers cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache

from ridgefill.errors import ConfigError
from ridgefill.fill import run_late
from ridgefill.generation.caches import hand_over, unusable
from ridgefill.generation.options import make_options, plan_prompt
from ridgefill.generation.prompts import Prompts, read_prompts
from ridgefill.generation.ready import Ready, get_ready
from ridgefill.models.cache import RowCache
from ridgefill.passes import run_lower

if TYPE_CHECKING:
    from ridgefill.pretrained import RidgeFillMaps


@dataclass(frozen=True)
class Prefilled:
    """Prompts in a stock cache, ready to be continued by the stock model.

    cache: holds every row of the prompts, N columns; recurrent states cannot be cut back, so copy it
    (``copy.deepcopy``) to continue twice. logits: ``[B, vocabulary]`` of each prompt's last token, so the next
    token can be chosen from them. filled: rows written from a prediction, in all prompts together, of ``tokens``.
    seconds: wall clock.

    ``generate`` runs the tokens of its ``input_ids`` that the cache does not hold, and needs at least one: pass the
    prompt and what follows it (a question, the token chosen from ``logits``), or prefill all but the last token.
    """

    cache: Cache
    logits: Tensor
    filled: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class _One:
    """One prompt, prefilled: its cache, logits of its last rows ``[1, kept, vocabulary]`` and rows filled."""

    cache: RowCache
    logits: Tensor
    filled: int


def prefill(
    maps: RidgeFillMaps,
    model: Any,
    input_ids: Tensor,
    *,
    tail: int = 4096,
    rows: str | Sequence[int] | None = None,
    attention_mask: Tensor | None = None,
    fill: bool = True,
    split_layer: str = "exact",
    min_filled: int = 1,
    cache: Cache | None = None,
) -> Prefilled:
    """Prefill ``input_ids`` (int64 ``[B, N]``) with the maps' fill and return a cache that the stock model continues.

    tail: tokens at the end of each prompt that run every layer. rows: prefix rows that do so too (None,
    ``"attention"``, or positions counted from each prompt's first token). attention_mask: ``[B, N]``, padding on the
    left. fill: False runs the stock model. split_layer: ``"exact"`` or ``"mapped"``. min_filled: when no prompt of
    the batch has that many rows to fill, the stock model runs. cache: an empty one to use.

    Raises ``ConfigError``, ``ModelError``, ``MapError`` or ``TextError`` for what cannot be used, ``NumericsError``
    when an output is not finite.
    """
    options = make_options(maps.split, tail=tail, rows=rows, fill=fill, split_layer=split_layer, min_filled=min_filled)
    ready = get_ready(maps, model, options)
    prompts = read_prompts(input_ids.to(ready.adapter.device), attention_mask)
    cache = _empty(cache, ready)
    begin = perf_counter()
    if any(options.worth(length) for length in prompts.lengths):
        logits, filled = fill_prompts(ready, prompts, cache)
    else:
        logits, filled = _stock_logits(ready, prompts, cache), 0
    return Prefilled(cache, logits[:, -1], filled, sum(prompts.lengths), perf_counter() - begin)


@torch.no_grad()
def fill_prompts(ready: Ready, prompts: Prompts, cache: Cache, kept: int = 1) -> tuple[Tensor, int]:
    """Prefill every prompt into ``cache``; return logits of their last ``kept`` rows and how many rows were filled.

    The logits are ``[B, kept, vocabulary]``. Rows whose logits are wanted are never filled, and the tail before the
    first of them is whole.
    """
    different, which = prompts.distinct()
    done = [_one(ready, ids, kept) for ids in different]
    entries = [done[place] for place in which]
    hand_over([one.cache for one in entries], prompts, cache, axes=ready.adapter.position_axes, kept=kept)
    return torch.cat([one.logits for one in entries]), sum(one.filled for one in entries)


def _one(ready: Ready, ids: Tensor, kept: int) -> _One:
    adapter, options = ready.adapter, ready.options
    lower = run_lower(adapter, ids, options.split)
    plan = plan_prompt(options, adapter, lower, kept)
    late = run_late(adapter, lower, plan, ready.predict, options.arm)
    return _One(late.cache, adapter.logits(late.hidden[:, -kept:]), int(plan.filled.numel()))


@torch.no_grad()
def _stock_logits(ready: Ready, prompts: Prompts, cache: Cache) -> Tensor:
    """The stock model's own prefill, called as ``generate`` calls it."""
    logits: Tensor = ready.stock(
        input_ids=prompts.ids,
        attention_mask=prompts.mask,
        position_ids=prompts.positions,
        cache=cache,
        use_cache=True,
        logits_to_keep=1,
    ).logits
    return logits


def _empty(cache: Cache | None, ready: Ready) -> Cache:
    if cache is None:
        return DynamicCache(config=ready.decoder)
    if cache.get_seq_length():
        raise ConfigError(
            f"the cache already holds {cache.get_seq_length()} tokens; expected an empty one, as a fill starts at the "
            "first token of a prompt"
        )
    if reason := unusable(cache, ready.decoder):
        raise ConfigError(f"{reason}; expected an empty DynamicCache(config=model.config)")
    return cache
