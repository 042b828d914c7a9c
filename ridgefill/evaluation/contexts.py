"""From a suite's prompt to what selectors see of it, made only as far as some arm reads it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ridgefill.arms import Arm
from ridgefill.selectors.context import Context
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.tokens import Span, SpecialIds, outside, positions_of, special_ids, token_texts


def prompt_context(
    arms: Collection[Arm],
    tokenizer: Any,
    ids: Sequence[int],
    *,
    text: str,
    offsets: Sequence[Span],
    seed: int,
    turn: Span | None = None,
    question: Span | None = None,
    frequencies: Frequencies | None = None,
) -> Context:
    """The context of one prompt for the selectors of ``arms``.

    text, offsets: the prompt's characters and each token's place in them. turn: the characters of the user's turn,
    None when no template was written around it. question: the characters from the question to the end of the prompt,
    its answer prefix included, None for a prompt that asks nothing. seed: the sample's own, 63 bits.
    """
    needs = frozenset[str]().union(*(arm.needs for arm in arms))
    asked = (len(ids), len(ids)) if question is None else positions_of(offsets, *question)
    return Context(
        tuple(ids),
        0,
        texts=token_texts(tokenizer, ids) if "texts" in needs else None,
        text=text if "prompt" in needs else None,
        offsets=tuple(offsets) if "prompt" in needs else None,
        special=special_ids(tokenizer) if "special" in needs else SpecialIds(),
        template=() if turn is None or "template" not in needs else outside(offsets, *turn),
        question=asked,
        seed=seed,
        frequencies=frequencies,
    )
