"""Questions about documents (qa): the answers' documents among others, all shuffled."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ridgefill.errors import TextError
from ridgefill.suites.questions import Question, QuestionSet
from ridgefill.suites.ruler.plans import Draft, Hidden, Limits, Place, Steps, lay_out
from ridgefill.suites.wording import READING, document_heading

_BETWEEN = "\n\n"


@dataclass(frozen=True)
class Reading:
    """Sample ``i`` asks question ``i`` of the task's set. The size counts documents.

    The question's own documents are always there, its article's other documents come next, any others
    last. Needles are the documents that answer the question. A set smaller than the haystack asked for is
    not repeated (its answers would be), so such samples stay shorter than the length.
    """

    @property
    def steps(self) -> Steps:
        """10 documents."""
        return Steps(10, 10)

    def limits(self, at: Place) -> Limits:
        """The question's own documents, up to all of the set."""
        asked, question = _asked(at)
        return Limits(len(question.documents), len(asked.documents))

    def draw(self, at: Place, size: int, rng: random.Random) -> Draft:
        """One draw: the other documents, then the order of all."""
        asked, question = _asked(at)
        chosen = _documents(asked, question, size, rng)
        rng.shuffle(chosen)
        context, hidden = "", []
        for place, number in enumerate(chosen, start=1):
            context += (_BETWEEN if context else "") + document_heading(place)
            text = asked.documents[number]
            if number in question.answered_by:
                hidden.append(Hidden(text, True, (len(context), len(context) + len(text))))
            context += text
        return lay_out(
            READING.introduction + "\n",
            context + "\n",
            READING.question.format(question=question.text),
            hidden=hidden,
            answer=READING.answer,
            references=question.answers,
        )


def _asked(at: Place) -> tuple[QuestionSet, Question]:
    if at.task not in at.material.questions:
        raise TextError(f"{at.task} has no set of questions; name a file of questions in the configuration")
    asked = at.material.questions[at.task]
    if at.index >= len(asked.questions):
        raise TextError(
            f"{at.task} has {len(asked.questions)} questions ({asked.name}) and sample {at.index} was asked for; "
            "ask for fewer samples or name a larger file of questions"
        )
    return asked, asked.questions[at.index]


def _documents(asked: QuestionSet, question: Question, size: int, rng: random.Random) -> list[int]:
    """Numbers of ``size`` documents: own ones, then related ones, then any."""
    own, related = list(question.documents), list(question.related)
    room = size - len(own)
    if room <= len(related):
        return own + rng.sample(related, room)
    taken = {*own, *related}
    others = [number for number in range(len(asked.documents)) if number not in taken]
    return own + related + rng.sample(others, room - len(related))
