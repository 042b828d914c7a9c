"""``with maps.fill(model)``: every prefill that ``generate`` makes inside the block is a filled one."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers.cache_utils import Cache, DynamicCache
from transformers.modeling_outputs import CausalLMOutputWithPast

from ridgefill.errors import ConfigError, TextError
from ridgefill.generation.caches import unusable
from ridgefill.generation.options import make_options
from ridgefill.generation.prefill import Prefilled, fill_prompts
from ridgefill.generation.prompts import Prompts, read_prompts
from ridgefill.generation.ready import MARK, Ready, get_ready

if TYPE_CHECKING:
    from ridgefill.pretrained import RidgeFillMaps

READ = {"input_ids", "attention_mask", "position_ids", "cache", "use_cache", "logits_to_keep"}
"""Arguments of a forward that a filled prefill answers to."""
HARMLESS = {"return_dict": True, "output_attentions": False, "output_hidden_states": False}
"""Further arguments, with the value besides None that asks for nothing a filled prefill lacks."""


@contextmanager
def filling(
    maps: RidgeFillMaps,
    model: Any,
    *,
    tail: int = 4096,
    rows: str | Sequence[int] | None = None,
    fill: bool = True,
    split_layer: str = "exact",
    min_filled: int = 1,
) -> Iterator[list[Prefilled]]:
    """Within the block, ``model`` answers a prefill from the maps; all other calls go to the stock ``forward``.

    A prefill is a call with token ids, an empty cache (or ``use_cache=True``) and ``logits_to_keep`` of at least 1,
    as ``generate`` and pipelines make it: greedy, sampling, beams, assisted, with a streamer, padded on the left.
    Rows whose logits are asked for are not filled. What cannot be filled runs on the stock model, with a warning
    when a fill would have shortened it: logits of the whole prompt (they do not exist for filled rows), a static or
    offloaded cache, hidden states or attentions. A second turn on the same cache is correct but not shortened, and of
    a prompt that ``generate`` prefills in chunks only the first is. ``fill=False`` changes nothing.

    Yields a list that grows by one ``Prefilled`` per filled call (several prompts may share one). The stock
    ``forward`` is back when the block ends, also by an exception. Parameters and errors are those of ``prefill``;
    ``ConfigError`` when the model is already in such a block.
    """
    options = make_options(maps.split, tail=tail, rows=rows, fill=fill, split_layer=split_layer, min_filled=min_filled)
    if hasattr(getattr(model, "forward", None), MARK):
        raise ConfigError("the model is already inside a fill block; leave that one first")
    ready = get_ready(maps, model, options)
    on_instance = "forward" in vars(model)
    gate = _Gate(ready)

    @functools.wraps(ready.stock)
    def forward(*args: Any, **kwargs: Any) -> Any:
        return gate(*args, **kwargs)

    setattr(forward, MARK, True)
    model.forward = forward
    try:
        yield gate.done
    finally:
        if on_instance:
            model.forward = ready.stock
        else:
            del model.forward


@dataclass(frozen=True)
class _Prefill:
    """A call that can be filled: its prompts, its cache, and how many rows at the end have their logits asked for."""

    prompts: Prompts
    cache: Cache
    kept: int


class _Obstacle(Exception):
    """Why a prefill cannot be filled."""


class _Gate:
    """Decides for each call whether it is a prefill that can be filled."""

    def __init__(self, ready: Ready) -> None:
        self.ready = ready
        self.signature = inspect.signature(ready.stock)
        self.done: list[Prefilled] = []
        self.warned: set[str] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = self._arguments(args, kwargs)
        if self._may_be_shorter(call):
            try:
                prefill = self._read(call)
            except _Obstacle as obstacle:
                self._warn(str(obstacle))
            else:
                if any(self.ready.options.worth(length, prefill.kept) for length in prefill.prompts.lengths):
                    return self._fill(prefill)
        return self.ready.stock(*args, **kwargs)

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments of a call by name, those of ``**kwargs`` among them; nothing when they do not fit."""
        try:
            bound = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return {}
        extra = bound.pop("kwargs", {})
        if "past_key_values" in extra:  # its name before transformers 5
            extra["cache"] = extra.pop("past_key_values")
        return {**bound, **extra}

    def _may_be_shorter(self, call: dict[str, Any]) -> bool:
        """Whether the call runs so many new tokens of a new prompt that some would be filled."""
        ids, cache = call.get("input_ids"), call.get("cache")
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.shape[1] < 2:
            return False
        if isinstance(cache, Cache) and cache.get_seq_length() > 0:
            return False
        return self.ready.options.worth(int(ids.shape[1]), _kept(call) or 1)

    def _read(self, call: dict[str, Any]) -> _Prefill:
        kept, cache, positions = _kept(call), call.get("cache"), call.get("position_ids")
        if kept is None:
            raise _Obstacle(
                "logits of the whole prompt were asked for, which filled rows do not have (pass logits_to_keep=1)"
            )
        others = sorted(name for name, value in call.items() if name not in READ and not _harmless(name, value))
        if others:
            raise _Obstacle(f"{', '.join(others)} cannot be given with a fill")
        if cache is None and call.get("use_cache") is not True:
            raise _Obstacle("no cache was asked for (pass use_cache=True)")
        if cache is None:
            cache = DynamicCache(config=self.ready.decoder)
        if reason := unusable(cache, self.ready.decoder):
            raise _Obstacle(reason)
        try:
            prompts = read_prompts(call["input_ids"], call.get("attention_mask"), positions)
        except TextError as error:
            raise _Obstacle(str(error)) from error
        if positions is None and any(prompts.starts):
            raise _Obstacle("padded prompts were given without position_ids, so their positions count the padding")
        if kept > min(prompts.lengths):
            raise _Obstacle(f"logits of {kept} rows were asked for, more than the shortest prompt has tokens")
        return _Prefill(prompts, cache, kept)

    def _fill(self, prefill: _Prefill) -> Any:
        begin = perf_counter()
        logits, filled = fill_prompts(self.ready, prefill.prompts, prefill.cache, prefill.kept)
        tokens = sum(prefill.prompts.lengths)
        self.done.append(Prefilled(prefill.cache, logits[:, -1], filled, tokens, perf_counter() - begin))
        return CausalLMOutputWithPast(logits=logits, cache=prefill.cache)

    def _warn(self, obstacle: str) -> None:
        if obstacle not in self.warned:
            self.warned.add(obstacle)
            warnings.warn(f"nothing was filled and the prompt ran exactly: {obstacle}", stacklevel=4)


def _kept(call: dict[str, Any]) -> int | None:
    """How many rows at the end have their logits asked for; None for all, or for rows picked one by one."""
    kept = call.get("logits_to_keep", 0)
    return kept if isinstance(kept, int) and kept > 0 else None


def _harmless(name: str, value: object) -> bool:
    if isinstance(value, Tensor):  # of a model that also takes images: every token is text
        return name.endswith("token_type_ids") and not bool(value.any())
    return value is None or value == {} or (name in HARMLESS and value is HARMLESS[name])
