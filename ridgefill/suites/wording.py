"""The wording of the tasks: introduction, needle, question and answer prefix.

Our own sentences in the roles that RULER gives them (announce what to remember, context, question, the
start of the answer), so scores made here are labelled ``ruler-style``, never ``official``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOISE = "The lamp is lit. The door is shut. The rain is soft. On we go. Out and then home."
NOISE_MARK = "..."
"""What stands for the most frequent code word, to be left out of the answer."""


@dataclass(frozen=True)
class Wording:
    """Introduction, question and start of the answer, with fields in braces to fill in."""

    introduction: str
    question: str
    answer: str


_ONE = Wording(
    introduction=(
        "A special magic {kind} is hidden somewhere in the text below. Remember it, because a question "
        "about that {kind} follows the text."
    ),
    question="What is the special magic {kind} that the text gives for {keys}?",
    answer=" The special magic {kind} that the text gives for {keys} is",
)
_MANY = Wording(
    introduction=(
        "Several special magic {kind}s are hidden somewhere in the text below. Remember them, because a "
        "question about those {kind}s follows the text."
    ),
    question="What are all the special magic {kind}s that the text gives for {keys}?",
    answer=" The special magic {kind}s that the text gives for {keys} are",
)
CHAIN = Wording(
    introduction=(
        "In the text below a variable is set to a number, and others are set to a variable that already has "
        "it. Keep an eye on which variable gets which number."
    ),
    question="Which variables of the text above have the number {value} in the end?",
    answer=" Going through the text, these {count} variables have the number {value}:",
)
COMMON = Wording(
    introduction="Here is a numbered list of words. A few of them return more often than all others; note which.",
    question="Which {count} words does the list above repeat the most?",
    answer=" The {count} words that the list repeats the most are:",
)
CODED = Wording(
    introduction=(
        "The text below is made of code words and dots. Count how often each code word is used, so that you can "
        "name the three used most."
    ),
    question="Without the dots and without explaining, which three code words does the text above use most?",
    answer=" The three code words that the text uses most are:",
)
READING = Wording(
    introduction=(
        "A question follows the documents below, and they hold what it asks for. Reply with that alone, adding "
        "nothing to it."
    ),
    question="Reply from these documents alone and add nothing: {question}",
    answer=" The reply:",
)


def retrieval(answers: int, kind: str) -> Wording:
    """Wording for values of one kind: singular for a single expected answer, plural for more."""
    texts = _ONE if answers == 1 else _MANY
    return Wording(
        texts.introduction.format(kind=kind),
        texts.question.format(kind=kind, keys="{keys}"),
        texts.answer.format(kind=kind, keys="{keys}"),
    )


def needle(key: str, value: str, kind: str = "number") -> str:
    """The sentence that hides one value."""
    return f"A special magic {kind} for {key} is: {value}."


def assignment(name: str, given: str) -> str:
    """The statement that sets a variable to a number or to another variable."""
    return f"SET {name} := {given}"


def document_heading(place: int) -> str:
    """What stands before document ``place`` of a context."""
    return f"[{place}]\n"


def listed(keys: Sequence[str]) -> str:
    """The keys of a question in running text: ``a``, ``a and b``, ``a, b, and c``."""
    if len(keys) < 3:
        return " and ".join(keys)
    return ", ".join(keys[:-1]) + f", and {keys[-1]}"
