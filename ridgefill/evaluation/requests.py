"""Prompts for what is timed: stretches of one long text, each another one, so that nothing can be reused."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from ridgefill.arms import Arm
from ridgefill.errors import TextError
from ridgefill.evaluation.contexts import prompt_context
from ridgefill.evaluation.prompts import opening
from ridgefill.selectors.context import Context
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.tokens import Span


@dataclass(frozen=True)
class Requests:
    """A long text's tokens, and where in it each request begins.

    text, ids, offsets: the text, its tokens, and each token's characters. starts: first token of every request, all
    different. seed: from which each request's own seed is counted up.
    """

    tokenizer: Any
    text: str
    ids: tuple[int, ...]
    offsets: tuple[Span, ...]
    starts: tuple[int, ...]
    seed: int
    frequencies: Frequencies | None = None

    def context(self, arms: Collection[Arm], number: int, tokens: int) -> Context:
        """Request ``number``, of ``tokens`` tokens, as the selectors of ``arms`` see it; it asks nothing.

        The tokenizer's own opening mark comes first, if it has one. The text begins again where it ends. Raises
        ``TextError`` when there are fewer requests.
        """
        if number >= len(self.starts):
            raise TextError(f"request {number + 1} was asked for; expected at most the {len(self.starts)} planned ones")
        mark = opening(self.tokenizer)
        ids, offsets, parts, length = list(mark), [(0, 0)] * len(mark), [], 0
        first, missing = self.starts[number], tokens - len(mark)
        while missing > 0:
            end = min(len(self.ids), first + missing)
            begin, stop = self.offsets[first][0], self.offsets[end - 1][1]
            ids += self.ids[first:end]
            offsets += [(a - begin + length, b - begin + length) for a, b in self.offsets[first:end]]
            parts.append(self.text[begin:stop])
            length += stop - begin
            first, missing = 0, missing - (end - first)
        return prompt_context(
            arms,
            self.tokenizer,
            ids,
            text="".join(parts),
            offsets=offsets,
            seed=(self.seed + number) % 2**63,
            frequencies=self.frequencies,
        )


def make_requests(
    tokenizer: Any, texts: Sequence[str], count: int, seed: int, frequencies: Frequencies | None = None
) -> Requests:
    """``count`` requests over the given texts, their places drawn by ``seed``.

    Raises ``TextError`` for texts with fewer tokens than requests, as two of them would be the same.
    """
    text = "\n\n".join(texts)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = tuple(encoded["input_ids"])
    if len(ids) < count:
        raise TextError(
            f"the texts hold {len(ids)} tokens; expected at least {count}, so that each request begins at another one"
        )
    starts = random.Random(seed).sample(range(len(ids)), count)
    offsets = tuple((int(first), int(end)) for first, end in encoded["offset_mapping"])
    return Requests(tokenizer, text, ids, offsets, tuple(starts), seed, frequencies)
