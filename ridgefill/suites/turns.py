"""A second question about a retrieval sample: the value of another key that its text holds (paper Appendix D)."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace

from ridgefill.errors import TextError
from ridgefill.suites.needles import RulerSample
from ridgefill.suites.ruler.language import asking
from ridgefill.suites.wording import retrieval

TASK = "niah_multikey_1"
"""Four keys with one value each in essays; the sample's own question asks for one of them."""
_KEYED = re.compile(r"magic (?P<kind>\w+) for (?P<key>.+) is: (?P<value>\S+)\.$")

_CODED = re.compile(r"the code of (?P<key>\w+) is (?P<value>\d+)\.$")


@dataclass(frozen=True)
class TurnSample:
    """A sample and what is asked after it is answered.

    first: the sample, the needles of both questions marked as queried. question: the second user turn. answer_prefix:
    what the second answer begins with. references: the values it should give, all of them.
    """

    first: RulerSample
    question: str
    answer_prefix: str
    references: tuple[str, ...]


def second_turn(sample: RulerSample, seed: int) -> TurnSample:
    """Ask ``sample`` for one more of its keys, in the wording of its own question.

    Its own question is about a key that its generator drew, and ``seed`` draws among the others, so that every ordered
    pair of keys is as likely as any other. Raises TextError for a sample with fewer than two keys of one value each.
    """
    first, asked = _another(sample, seed, _KEYED)
    texts, key = retrieval(1, asked["kind"]), asked["key"]
    return TurnSample(first, texts.question.format(keys=key), texts.answer.format(keys=key), (asked["value"],))


def second_in_language(sample: RulerSample, seed: int) -> TurnSample:
    """The same for a sample in the hybrids' language. Raises TextError for one with a single needle."""
    first, asked = _another(sample, seed, _CODED)
    question, answer = asking(asked["key"])
    return TurnSample(first, question.removeprefix(" "), answer, (asked["value"],))


def _another(sample: RulerSample, seed: int, says: re.Pattern[str]) -> tuple[RulerSample, re.Match[str]]:
    """One more needle that may be asked about: the sample with both marked as queried, and what the needle ``says``."""
    others = [
        (place, found)
        for place, needle in enumerate(sample.needles)
        if not needle.queried and (found := says.search(needle.text)) is not None
    ]
    if not others or len(sample.references) != 1:
        raise TextError(
            f"{sample.task} sample {sample.index} has nothing else to ask for; expected a question for one value and "
            f"another key in the text, as {TASK} has"
        )
    draw = random.Random(f"{seed}/turns/{sample.task}/{sample.length}/{sample.index}")
    chosen, asked = draw.choice(others)
    needles = (replace(one, queried=one.queried or place == chosen) for place, one in enumerate(sample.needles))
    return replace(sample, needles=tuple(needles)), asked
