"""Variables assigned to one another, scattered over noise (vt)."""

from __future__ import annotations

import random
import string
from collections.abc import Sequence
from dataclasses import dataclass

from ridgefill.suites.haystack import Noise, hide
from ridgefill.suites.ruler.plans import Draft, Hidden, Limits, Place, Steps, lay_out
from ridgefill.suites.wording import CHAIN, assignment
from ridgefill.suites.words import distinct_letters

_NAME, _EXAMPLE_NAME = 5, 3
_EXAMPLE_LINES = 10


@dataclass(frozen=True)
class Chain:
    """One chain: a variable with a number, then ``hops`` variables, each assigned the one before it.

    All statements are needles and all are asked for. A solved example with shorter names and another number
    stands before the sample; its statements are no needles. The size counts lines of noise.
    """

    hops: int

    @property
    def steps(self) -> Steps:
        """10 lines, 5 at short lengths."""
        return Steps(5, 10)

    def limits(self, at: Place) -> Limits:
        """As many lines of noise as there are statements."""
        return Limits(self.hops + 1)

    def draw(self, at: Place, size: int, rng: random.Random) -> Draft:
        """One draw: the example's number and the sample's, then each one's names and places."""
        example_value, value = (str(number) for number in rng.sample(range(10_000, 100_000), 2))
        lines = self.hops + 1 if at.short else _EXAMPLE_LINES
        shown = self._part(lines, example_value, _EXAMPLE_NAME, rng)
        example = f"{shown.question_prompt}{shown.answer_prefix} {' '.join(shown.references)}\n\n"
        return self._part(size, value, _NAME, rng, example)

    def _part(self, size: int, value: str, letters: int, rng: random.Random, example: str = "") -> Draft:
        names = distinct_letters(rng, self.hops + 1, letters, string.ascii_uppercase)
        statements = _statements(names, value)
        context, spans = hide(Noise(), size, statements, rng)
        return lay_out(
            CHAIN.introduction,
            context,
            CHAIN.question.format(value=value),
            hidden=[Hidden(text, True, span) for text, span in zip(statements, spans, strict=True)],
            answer=CHAIN.answer.format(value=value, count=len(names)),
            references=names,
            example=example,
        )


def _statements(names: Sequence[str], value: str) -> list[str]:
    return [assignment(name, given) for name, given in zip(names, [value, *names], strict=False)]
