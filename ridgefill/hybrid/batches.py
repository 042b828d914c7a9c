"""Episodes as tensors: a batch is a function of seed and step, so that a resumed training sees the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from ridgefill.hybrid.language import Episode, Task, episode
from ridgefill.hybrid.settings import Hybrid, Stage
from ridgefill.hybrid.words import PAD, VOCABULARY

LENGTH_MULTIPLE = 16


@dataclass(frozen=True)
class Batch:
    """ids: int64 ``[B, L]``, padded at the end. start: first row of the questions, int64 ``[B]``.

    answers, rest: boolean ``[B, L - 1]``, which next tokens are digits of an answer, and which are anything else that
    can be learned: not padding, and no number before the question. forced: boolean ``[B]``.
    """

    ids: Tensor
    start: Tensor
    answers: Tensor
    rest: Tensor
    forced: Tensor


def stage_of(hybrid: Hybrid, step: int) -> Stage:
    """The curriculum's stage at a step counted from 0."""
    for stage in hybrid.stages:
        if step < stage.steps:
            return stage
        step -= stage.steps
    return hybrid.stages[-1]


def training_batch(hybrid: Hybrid, step: int) -> Batch:
    """The batch of a step."""
    stage = stage_of(hybrid, step)
    random = Random(f"training/{hybrid.seed}/{step}")
    length = random.choice(stage.lengths)
    shortest, longest = stage.digits
    episodes, forced = [], []
    for _ in range(max(1, stage.tokens // length)):
        digits = shortest if shortest == longest else random.randint(shortest, longest)
        most = min((length - 1) // (Task(length, 1, 1, digits).least - 1), 9 * 10 ** (digits - 1))
        fewest, largest = (min(keys, most) for keys in stage.keys)
        keys = random.randint(fewest, largest)
        episodes.append(episode(Task(length, keys, keys, digits), random))
        forced.append(random.random() < stage.forced)
    return collate(episodes, forced)


def collate(episodes: Sequence[Episode], forced: Sequence[bool]) -> Batch:
    """Episodes side by side."""
    longest = max(len(one.pieces) for one in episodes)
    longest = -(-longest // LENGTH_MULTIPLE) * LENGTH_MULTIPLE
    ids = torch.full((len(episodes), longest), VOCABULARY[PAD])
    answers = torch.zeros(len(episodes), longest, dtype=torch.bool)
    rest = torch.zeros(len(episodes), longest, dtype=torch.bool)
    for row, one in enumerate(episodes):
        ids[row, : len(one.pieces)] = torch.tensor(one.ids)
        rest[row, : len(one.pieces)] = True
        for start, end in one.answers:
            answers[row, start:end] = True
        for start, end in (*one.answers, *one.numbers):
            rest[row, start:end] = False
    starts = torch.tensor([one.question for one in episodes])
    return Batch(ids, starts, answers[:, 1:], rest[:, 1:], torch.tensor(list(forced)))
