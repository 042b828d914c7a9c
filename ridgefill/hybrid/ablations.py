"""Where a checkpoint retrieves: exact retrieval with parts of what it kept of the prefix taken away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ridgefill.hybrid.batches import collate
from ridgefill.hybrid.language import Episode, Task, four_asked, four_keys, held_out, one_key
from ridgefill.hybrid.passes import Cut, hidden_states
from ridgefill.hybrid.settings import Network

TASKS: dict[str, Callable[[int], Task]] = {"one key": one_key, "four keys": four_keys, "four asked": four_asked}
"""What retrieval is asked for; a prompt counts when all digits of all its answers are right."""


@dataclass(frozen=True)
class Ablation:
    """Layers whose prefix keys and values, and layers whose recurrent states, are gone from the question on."""

    name: str
    attention: tuple[int, ...]
    states: tuple[int, ...]


def ablations(network: Network) -> tuple[Ablation, ...]:
    """Nothing gone; then late and early attention, late and early states, all of either, and all but one part."""
    late_attention = tuple(layer for layer in network.attention if layer >= network.split)
    early_attention = tuple(layer for layer in network.attention if layer < network.split)
    late_states = tuple(layer for layer in network.states if layer >= network.split)
    early_states = tuple(layer for layer in network.states if layer < network.split)
    return (
        Ablation("nothing", (), ()),
        Ablation("late attention", late_attention, ()),
        Ablation("late states", (), late_states),
        Ablation("late attention and late states", late_attention, late_states),
        Ablation("early attention", early_attention, ()),
        Ablation("early states", (), early_states),
        Ablation("all states", (), network.states),
        Ablation("all but late attention", early_attention, network.states),
        Ablation("all but late states", network.attention, early_states),
        Ablation("everything", network.attention, network.states),
    )


def held_out_episodes(task: str, length: int, count: int, seed: int) -> list[Episode]:
    """The first ``count`` held-out prompts of a task in ``TASKS`` at a length."""
    return [held_out(TASKS[task](length), seed, index) for index in range(count)]


@torch.no_grad()
def exactly_right(network: Any, episodes: Sequence[Episode], cut: Ablation, at_once: int = 8) -> list[bool]:
    """For each episode, whether greedy decoding would give all its answers, with ``cut`` taken away.

    One pass with the answers in place: greedy decoding is right exactly when every answer digit is the likeliest next
    token after the true ones.
    """
    right: list[bool] = []
    for begin in range(0, len(episodes), at_once):
        batch = collate(episodes[begin : begin + at_once], [True] * len(episodes[begin : begin + at_once]))
        hidden = hidden_states(network, batch.ids, Cut(cut.attention, cut.states, batch.start))
        found = network.lm_head(hidden[:, :-1]).argmax(-1)
        wrong = (found != batch.ids[:, 1:]) & batch.answers
        right += (~wrong.any(1)).tolist()
    return right
