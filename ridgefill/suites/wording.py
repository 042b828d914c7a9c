"""The wording of the retrieval tasks: introduction, needle, question and answer prefix.

Our own sentences in the roles that RULER gives them (announce what to remember, context, question, the
start of the answer), so scores made here are labelled ``ruler-style``, never ``official``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

NOISE = "The lamp is lit. The door is shut. The rain is soft. On we go. Out and then home."


@dataclass(frozen=True)
class Wording:
    """Texts of one grammatical number, with ``{context}`` and ``{keys}`` to fill in."""

    prompt: str
    answer: str


_ONE = Wording(
    prompt=(
        "A special magic number is hidden somewhere in the text below. Remember it, because a question "
        "about that number follows the text.\n{context}\n"
        "What is the special magic number that the text gives for {keys}?"
    ),
    answer=" The special magic number that the text gives for {keys} is",
)
_MANY = Wording(
    prompt=(
        "Several special magic numbers are hidden somewhere in the text below. Remember them, because a "
        "question about those numbers follows the text.\n{context}\n"
        "What are all the special magic numbers that the text gives for {keys}?"
    ),
    answer=" The special magic numbers that the text gives for {keys} are",
)


def wording(answers: int) -> Wording:
    """Singular wording for a single expected answer, plural for more."""
    return _ONE if answers == 1 else _MANY


def needle(key: str, value: str) -> str:
    """The sentence that hides one value."""
    return f"A special magic number for {key} is: {value}."


def listed(keys: Sequence[str]) -> str:
    """The keys of a question in running text: ``a``, ``a and b``, ``a, b, and c``."""
    if len(keys) < 3:
        return " and ".join(keys)
    return ", ".join(keys[:-1]) + f", and {keys[-1]}"
