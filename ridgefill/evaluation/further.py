"""Questions that are put to a model while it answers: what it is given to go on with after each answer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

from torch import Tensor

from ridgefill.decode import Choose, most_likely
from ridgefill.suites.needles import RulerSample

Script = Sequence[int | None]
"""Token ids by step, None where the model's own token stands."""


def script(tokenizer: Any, sample: RulerSample) -> Script:
    """What a sample's answers are followed by, step by step; empty for a sample with one question."""

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False)["input_ids"])

    made: list[int | None] = []
    for answer, text in zip(sample.references, sample.further, strict=False):
        # Behind an answer, since a text that stands alone may begin with another token than one that goes on.
        own = len(ids(answer))
        made += [*[None] * own, *ids(answer + text)[own:]]
    return made


def following(scripts: Sequence[Script]) -> Choose:
    """Greedy tokens of every entry, but for the steps that its script gives. To be used for one decoding."""
    steps = count()

    def choose(entries: Sequence[int], logits: Tensor) -> Tensor:
        step, chosen = next(steps), most_likely(entries, logits)
        for place, entry in enumerate(entries):
            given = scripts[entry][step] if step < len(scripts[entry]) else None
            if given is not None:
                chosen[place] = given
        return chosen

    return choose
