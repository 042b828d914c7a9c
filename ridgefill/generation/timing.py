"""One greedy generation and when its first token came; filled and exact in turn, for a ratio from one process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from torch import Tensor
from transformers.generation.streamers import BaseStreamer

if TYPE_CHECKING:
    from ridgefill.pretrained import RidgeFillMaps

WARM_UP = 16
"""Prompt tokens run before anything is timed: the first call of a process sets up threads and buffers."""


@dataclass(frozen=True)
class Run:
    """One generation. new_ids: tokens after the prompt. first_token, seconds: wall clock until the first one and in
    all. tokens: of the prompt. filled: rows of it written from a prediction."""

    new_ids: tuple[int, ...]
    first_token: float
    seconds: float
    tokens: int
    filled: int


@dataclass(frozen=True)
class Comparison:
    """Runs of both kinds in alternating order; the first of each generated all tokens, the others only one."""

    filled: tuple[Run, ...]
    exact: tuple[Run, ...]

    @property
    def ratio(self) -> float:
        """How many times sooner the first token came: median exact time over median filled time."""
        return self.first_token(self.exact) / self.first_token(self.filled)

    @staticmethod
    def first_token(runs: Sequence[Run]) -> float:
        """Median time to the first token, in seconds."""
        return median(run.first_token for run in runs)


class Clock(BaseStreamer):
    """Notes when ``generate`` hands over the first new token; the prompt itself is handed over before it.

    first_token: ``perf_counter`` then, NaN before.
    """

    def __init__(self) -> None:
        self.calls = 0
        self.first_token = float("nan")

    def put(self, value: Tensor) -> None:
        """Take the prompt, or a token."""
        self.calls += 1
        if self.calls == 2:
            self.first_token = perf_counter()

    def end(self) -> None:
        """Nothing is left to do."""


def generate_once(
    model: Any, inputs: dict[str, Tensor], new_tokens: int, maps: RidgeFillMaps | None, **fill: Any
) -> Run:
    """Greedy generation from one prompt (``input_ids`` and ``attention_mask``, int64 ``[1, N]``).

    maps: None for an exact run. fill: arguments of ``RidgeFillMaps.fill``.
    """
    clock = Clock()
    tokens = int(inputs["input_ids"].shape[1])
    with nullcontext([]) if maps is None else maps.fill(model, **fill) as done:
        begin = perf_counter()
        ids = model.generate(
            **inputs, max_new_tokens=new_tokens, do_sample=False, temperature=None, top_p=None, top_k=None,
            streamer=clock, pad_token_id=_padding(model),
        )  # fmt: skip
        end = perf_counter()
    return Run(
        tuple(ids[0, tokens:].tolist()),
        clock.first_token - begin,
        end - begin,
        tokens,
        sum(one.filled for one in done),
    )


def warm_up(model: Any, inputs: dict[str, Tensor]) -> None:
    """Generate one token from the prompt's beginning."""
    generate_once(model, {name: value[:, :WARM_UP] for name, value in inputs.items()}, 1, None)


def compare(
    model: Any,
    inputs: dict[str, Tensor],
    new_tokens: int,
    maps: RidgeFillMaps,
    *,
    rounds: int,
    told: Callable[[str, int, Run], None] = lambda *_: None,
    **fill: Any,
) -> Comparison:
    """Run both kinds ``rounds`` times, each round in the other order; ``told`` hears of kind, round and run."""
    runs: dict[str, list[Run]] = {"filled": [], "exact": []}
    for number in range(rounds):
        order = ("exact", "filled") if number % 2 == 0 else ("filled", "exact")
        for kind in order:
            used = maps if kind == "filled" else None
            run = generate_once(model, inputs, new_tokens if number == 0 else 1, used, **(fill if used else {}))
            runs[kind].append(run)
            told(kind, number, run)
    return Comparison(tuple(runs["filled"]), tuple(runs["exact"]))


def _padding(model: Any) -> int:
    """A token id that ``generate`` may pad with; one prompt needs none, but it insists on a number."""
    config = model.generation_config
    found = config.pad_token_id if config.pad_token_id is not None else config.eos_token_id
    if isinstance(found, list):
        found = found[0]
    return 0 if found is None else int(found)
