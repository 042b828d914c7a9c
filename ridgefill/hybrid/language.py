"""RULER-like needles in a synthetic language: seeded episodes of filler, needles and questions.

A needle says that ``the code of KEY is DIGITS.``; a question begins the same sentence and the model ends it. The filler
holds other numbers, in sentences of the same shape about words that are never keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from ridgefill.errors import ConfigError
from ridgefill.hybrid.words import (
    ADJECTIVES,
    ADVERBS,
    DAYS,
    KEYS,
    MEASURES,
    NOUNS,
    NUMBER,
    PLACES,
    START,
    THINGS,
    VERBS,
    VOCABULARY,
)

DIGITS = 4
"""Digits of an answer, unless a task says otherwise."""
DISTRACTORS = 0.15
"""Share of filler sentences with a number in them."""
Sentence = tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """What an episode holds: at most ``length`` pieces, ``keys`` needles, ``asked`` of them asked about, in turn.

    digits: of each answer; none begins with 0.
    """

    length: int
    keys: int
    asked: int
    digits: int = DIGITS

    @property
    def least(self) -> int:
        """Pieces that the start, the needles and the questions take."""
        code = 10 ** (self.digits - 1)
        return 1 + self.keys * len(needle(KEYS[0], code)) + self.asked * len(question(KEYS[0], code))


@dataclass(frozen=True)
class Episode:
    """One text in pieces, answers included.

    question: place of the first piece of the first question. asked: the keys in question. answers: (start, end) of
    the digits of each answer. numbers: (start, end) of the digits before the question, which nothing predicts.
    needles: (start, end) of the needle sentences.
    """

    pieces: tuple[str, ...]
    question: int
    asked: tuple[str, ...]
    answers: tuple[tuple[int, int], ...]
    numbers: tuple[tuple[int, int], ...]
    needles: tuple[tuple[int, int], ...]

    @property
    def ids(self) -> list[int]:
        """Token ids, with the start token."""
        return [VOCABULARY[piece] for piece in self.pieces]

    @property
    def prompt(self) -> str:
        """The text up to the first answer, which a model continues with a space and the digits."""
        return spell(self.pieces[: self.answers[0][0] - 1])

    @property
    def further(self) -> tuple[str, ...]:
        """What stands between each answer and the next."""
        spans = zip(self.answers, self.answers[1:], strict=False)
        return tuple(spaced(self.pieces[end : start - 1]) for (_, end), (start, _) in spans)

    @property
    def references(self) -> tuple[str, ...]:
        """The answers as text."""
        return tuple("".join(self.pieces[start:end]) for start, end in self.answers)


def one_key(length: int) -> Task:
    """One needle, asked about."""
    return Task(length, 1, 1)


def four_keys(length: int) -> Task:
    """Four needles with different keys, one of them asked about."""
    return Task(length, 4, 1)


def four_asked(length: int) -> Task:
    """Four needles with different keys, all of them asked about, one after the other."""
    return Task(length, 4, 4)


def spell(pieces: Iterable[str]) -> str:
    """The text that pieces stand for, without the start token."""
    return spaced(pieces).removeprefix(" ")


def spaced(pieces: Iterable[str]) -> str:
    """The same with the blank that its first piece may stand for, so that places in both are the same."""
    return "".join(piece for piece in pieces if piece != START).replace(NUMBER, " ")


def held_out(task: Task, seed: int | str, index: int) -> Episode:
    """Episode number ``index`` of those kept from training, of the row of them that ``seed`` names."""
    return episode(task, Random(f"held out/{seed}/{index}"))


def episode(task: Task, random: Random) -> Episode:
    """An episode of at most ``task.length`` pieces, fewer by less than a sentence.

    Keys are different, and so are their numbers; no number of the filler is an answer. ConfigError if the needles
    and questions alone are longer, or there are not so many keys.
    """
    smallest = 10 ** (task.digits - 1)
    if not 1 <= task.asked <= task.keys <= min(len(KEYS), 9 * smallest) or task.least > task.length:
        raise ConfigError(
            f"{task} does not fit: it takes {task.least} pieces, and there are {len(KEYS)} keys and {9 * smallest} "
            "answers; lengthen it or ask for fewer keys"
        )
    keys = random.sample(KEYS, task.keys)
    codes = dict(zip(keys, random.sample(range(smallest, 10 * smallest), task.keys), strict=True))
    sentences = filler(task.length - task.least, set(codes.values()), random)
    hidden = {needle(key, code) for key, code in codes.items()}
    for one in sorted(hidden):
        sentences.insert(random.randint(0, len(sentences)), one)
    asked = tuple(random.sample(keys, task.asked))
    return _assembled(sentences, hidden, asked, [question(key, codes[key]) for key in asked])


def needle(key: str, code: int) -> Sentence:
    """The sentence that says a key's code."""
    return (*_words("the code of", key, "is"), *_number(code), ".")


def question(key: str, code: int) -> Sentence:
    """The question for a key's code and its answer."""
    return (*_words("question"), ":", *needle(key, code))


def _assembled(
    sentences: Sequence[Sentence], hidden: set[Sentence], asked: tuple[str, ...], questions: Sequence[Sentence]
) -> Episode:
    pieces: list[str] = [START]
    needles = []
    for sentence in sentences:
        if sentence in hidden:
            needles.append((len(pieces), len(pieces) + len(sentence)))
        pieces += sentence
    start = len(pieces)
    for sentence in questions:
        pieces += sentence
    numbers = _digit_runs(pieces)
    return Episode(
        tuple(pieces),
        start,
        asked,
        tuple(run for run in numbers if run[0] >= start),
        tuple(run for run in numbers if run[0] < start),
        tuple(needles),
    )


def _digit_runs(pieces: Sequence[str]) -> list[tuple[int, int]]:
    runs = []
    for place, piece in enumerate(pieces):
        if piece == NUMBER:
            end = place + 1
            while end < len(pieces) and pieces[end].isdigit():
                end += 1
            runs.append((place + 1, end))
    return runs


def filler(budget: int, taken: set[int], random: Random, numbered: float = DISTRACTORS) -> list[Sentence]:
    """Sentences of at most ``budget`` pieces together; a share ``numbered`` of them has a number, none in ``taken``."""
    sentences: list[Sentence] = []
    while True:
        kinds = NUMBERED if random.random() < numbered else PLAIN
        sentence = random.choice(kinds)(random, taken)
        budget -= len(sentence)
        if budget < 0:
            return sentences
        sentences.append(sentence)


def _other(random: Random, taken: set[int]) -> Sentence:
    """A distractor number of two digits to four, most often of four."""
    while True:
        number = random.randrange(1000, 10_000) if random.random() < 0.7 else random.randrange(10, 999)
        if number not in taken:
            return _number(number)


def _number(value: int) -> Sentence:
    return (NUMBER, *str(value))


def _words(*parts: str) -> Sentence:
    return tuple(NUMBER + word for part in parts for word in part.split())


def _someone(random: Random) -> str:
    described = random.random() < 0.5
    return f"the {random.choice(ADJECTIVES)} {random.choice(NOUNS)}" if described else f"the {random.choice(NOUNS)}"


Kind = Callable[[Random, set[int]], Sentence]
PLAIN: tuple[Kind, ...] = (
    lambda random, taken: (*_words(_someone(random), random.choice(VERBS), _someone(random)), "."),
    lambda random, taken: (
        *_words(_someone(random), random.choice(VERBS), "it", random.choice(PLACES), _someone(random)),
        ".",
    ),
    lambda random, taken: (
        *_words(_someone(random), "was", random.choice(ADJECTIVES)),
        *_words("and it had a", random.choice(ADJECTIVES), random.choice(NOUNS)),
        ".",
    ),
    lambda random, taken: (
        *_words("in the", random.choice(DAYS)),
        ",",
        *_words(_someone(random), random.choice(ADVERBS), random.choice(VERBS), _someone(random)),
        ".",
    ),
    lambda random, taken: (*_words("there was a", random.choice(NOUNS), random.choice(PLACES), _someone(random)), "."),
)
NUMBERED: tuple[Kind, ...] = (
    lambda random, taken: (
        *_words("the", random.choice(MEASURES), "of the", random.choice(NOUNS), "is"),
        *_other(random, taken),
        ".",
    ),
    lambda random, taken: (*_words("the code of", random.choice(NOUNS), "is"), *_other(random, taken), "."),
    lambda random, taken: (
        *_words("in the year"),
        *_other(random, taken),
        ",",
        *_words(_someone(random), random.choice(VERBS), _someone(random)),
        ".",
    ),
    lambda random, taken: (
        *_words(_someone(random), "had"),
        *_other(random, taken),
        *_words(random.choice(THINGS)),
        ".",
    ),
)
