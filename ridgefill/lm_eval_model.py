"""A model for lm-evaluation-harness whose contexts are prefilled with maps; the same tasks, a shorter prefill.

    python -m ridgefill.lm_eval_model --model ridgefill \\
        --model_args pretrained=MODEL,ridgefill=MAPS,tail=4096 --tasks TASK

is the harness's own command line with this model known to it (needs ``pip install '.[eval]'``).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from lm_eval.__main__ import cli_evaluate
from lm_eval.api.registry import register_model
from lm_eval.models.huggingface import HFLM
from torch import Tensor
from tqdm import tqdm

from ridgefill.errors import ConfigError
from ridgefill.generation.options import make_options
from ridgefill.generation.ready import get_ready
from ridgefill.pretrained import RidgeFillMaps

Request = tuple[Any, list[int], list[int]]
"""What the harness scores: the request's own texts (or None), tokens of the context, tokens of the continuation."""


@register_model("ridgefill")
class RidgeFillLM(HFLM):  # type: ignore[misc]
    """The harness's transformers model with the maps of ``ridgefill`` (a folder or hub repository).

    tail, rows, split_layer, fill, min_filled: as in ``RidgeFillMaps.fill``; a context no longer than the tail is
    exact. Everything else goes to ``HFLM``. Errors are those of ``prefill``, raised before the first request.
    """

    def __init__(
        self,
        pretrained: Any,
        ridgefill: str,
        tail: int = 4096,
        rows: str | None = None,
        split_layer: str = "exact",
        fill: bool = True,
        min_filled: int = 1,
        **others: Any,
    ) -> None:
        super().__init__(pretrained=pretrained, **others)
        if self.backend != "causal":
            raise ConfigError(f"the model's backend is {self.backend}; expected causal, as maps fill a decoder's cache")
        maps = RidgeFillMaps.from_pretrained(ridgefill)
        self.choices: dict[str, Any] = {
            "tail": tail,
            "rows": rows,
            "split_layer": split_layer,
            "fill": fill,
            "min_filled": min_filled,
        }
        adapter = get_ready(maps, self.model, make_options(maps.split, **self.choices)).adapter
        self.maps = replace(maps, maps=maps.maps.to(adapter.dtype, adapter.device))

    def _model_generate(self, *args: Any, **kwargs: Any) -> Tensor:
        """The harness's generation, prefilled from the maps."""
        with self.maps.fill(self.model, **self.choices):
            generated: Tensor = super()._model_generate(*args, **kwargs)
        return generated

    def _loglikelihood_tokens(
        self, requests: Sequence[Request], disable_tqdm: bool = False, **_: Any
    ) -> list[tuple[float, bool]]:
        """Log-probability of each continuation, and whether it is the greedy one.

        A context is prefilled once, and each of its continuations scored by the stock model on a copy of that cache.
        """
        answers: list[tuple[float, bool]] = [(0.0, False)] * len(requests)
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, (_texts, context, continuation) in enumerate(requests):
            groups.setdefault(self._kept(context, continuation), []).append(number)
        with tqdm(total=len(requests), disable=disable_tqdm or self.rank != 0, desc="loglikelihood") as bar:
            # The longest first: an estimate of the time left errs upwards, and memory runs out at once or never.
            for context in sorted(groups, key=len, reverse=True):
                numbers = groups[context]
                scored = self._score(context, [requests[number][2] for number in numbers])
                for number, answer in zip(numbers, scored, strict=True):
                    answers[number] = answer
                    if requests[number][0] is not None:
                        self.cache_hook.add_partial("loglikelihood", requests[number][0], answer)
                    bar.update(1)
        return answers

    def _kept(self, context: Sequence[int], continuation: Sequence[int]) -> tuple[int, ...]:
        """The end of the context that fits into the model with the continuation but its last token, as in ``HFLM``."""
        room = self.max_length + 1 - len(continuation)
        if room < 1 or not continuation:
            raise ConfigError(
                f"a continuation has {len(continuation)} tokens; expected 1 to {self.max_length}, which is all the "
                "model takes"
            )
        return tuple(context[-room:])

    @torch.no_grad()
    def _score(self, context: tuple[int, ...], continuations: Sequence[list[int]]) -> list[tuple[float, bool]]:
        done = self.maps.prefill(self.model, torch.tensor([context], device=self.device), **self.choices)
        answers = []
        for continuation in continuations:
            target = torch.tensor(continuation, device=self.device)
            logits = done.logits
            if len(continuation) > 1:
                cache = copy.deepcopy(done.cache)
                more = self.model(target[None, :-1], cache=cache, use_cache=True).logits[0]
                logits = torch.cat([logits, more])
            scores = torch.log_softmax(logits, dim=-1, dtype=self.softmax_dtype)
            total = scores.gather(1, target[:, None]).sum()
            answers.append((float(total), bool((logits.argmax(-1) == target).all())))
        return answers


if __name__ == "__main__":
    cli_evaluate()
