"""Sets of questions about documents: SQuAD 2.0 dev, HotpotQA dev distractor, and a small set of our own.

The two large sets are files of the user's. ``data/texts/qa_small.json`` holds a few records of both shapes
about invented places and people, written for this project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.userfiles import read_json

SMALL = Path("data/texts/qa_small.json")
_PARTS = {"qa_1": "squad", "qa_2": "hotpotqa"}


@dataclass(frozen=True)
class Question:
    """One question; documents are given by their numbers in the set.

    ``documents`` have to be in the context, ``answered_by`` are those of them that hold the answer, and
    ``related`` are the other documents of the same article.
    """

    text: str
    answers: tuple[str, ...]
    documents: tuple[int, ...]
    answered_by: tuple[int, ...]
    related: tuple[int, ...] = ()


@dataclass(frozen=True)
class QuestionSet:
    """Documents and questions; ``name`` and the file's ``sha256`` are what results say about them."""

    name: str
    sha256: str
    documents: tuple[str, ...]
    questions: tuple[Question, ...]


def read_squad(path: Path, expected: str | None = None) -> QuestionSet:
    """The answerable questions of a SQuAD 2.0 file, in file order.

    ``expected`` is the SHA-256 that the file must have. Raises TextError for a file of another shape.
    """
    raw, sha256 = read_json(path, expected)
    return _shaped(_squad, raw, "squad", sha256, path)


def read_hotpotqa(path: Path, expected: str | None = None) -> QuestionSet:
    """The questions of a HotpotQA distractor file, each with all the documents it came with.

    ``expected`` is the SHA-256 that the file must have. Raises TextError for a file of another shape.
    """
    raw, sha256 = read_json(path, expected)
    return _shaped(_hotpotqa, raw, "hotpotqa", sha256, path)


def question_set(task: str, path: Path | None = None, expected: str | None = None) -> QuestionSet:
    """The set of ``qa_1`` (SQuAD) or ``qa_2`` (HotpotQA): the user's file, or without one our own small set.

    Errors as ``read_squad``; ConfigError for a task without questions.
    """
    part = _part(task)
    if path is None:
        return small_set(task)
    return read_squad(path, expected) if part == "squad" else read_hotpotqa(path, expected)


def small_set(task: str, path: Path = SMALL) -> QuestionSet:
    """Our own questions of the shape of ``task``'s set. Raises ConfigError for a task without questions."""
    part = _part(task)
    raw, sha256 = read_json(path)
    records = raw.get(part) if isinstance(raw, dict) else None
    parse = _squad if part == "squad" else _hotpotqa
    return _shaped(parse, records, f"qa_small/{part}", sha256, path)


def _part(task: str) -> str:
    if task not in _PARTS:
        raise ConfigError(f"task {task!r} asks no questions about documents; such tasks are {' and '.join(_PARTS)}")
    return _PARTS[task]


_Parse = Callable[[Any], tuple[list[str], list[Question]]]


def _shaped(parse: _Parse, raw: Any, name: str, sha256: str, path: Path) -> QuestionSet:
    try:
        documents, questions = parse(raw)
        _check(documents, questions)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise TextError(
            f"{path} does not have the shape of a {name} file ({type(error).__name__}: {error}); "
            "give the unaltered file of that set"
        ) from None
    return QuestionSet(name, sha256, tuple(documents), tuple(questions))


def _check(documents: list[str], questions: list[Question]) -> None:
    if not questions:
        raise ValueError("no question")
    texts = [*documents, *(text for question in questions for text in (question.text, *question.answers))]
    for text in texts:
        if not text.strip():
            raise ValueError("an empty document, question or answer")
    for question in questions:
        if not question.answers or not question.answered_by:
            raise ValueError(f"no answer, or no document with it, for {question.text!r}")


def _squad(raw: Any) -> tuple[list[str], list[Question]]:
    articles = [[paragraph["context"] for paragraph in article["paragraphs"]] for article in raw["data"]]
    documents = sorted({text for paragraphs in articles for text in paragraphs})
    number = {text: place for place, text in enumerate(documents)}
    questions = []
    for article, paragraphs in zip(raw["data"], articles, strict=True):
        numbers = list(dict.fromkeys(number[text] for text in paragraphs))
        for paragraph in article["paragraphs"]:
            own = number[paragraph["context"]]
            related = tuple(other for other in numbers if other != own)
            for asked in paragraph["qas"]:
                if not asked["is_impossible"]:
                    answers = tuple(dict.fromkeys(answer["text"] for answer in asked["answers"]))
                    questions.append(Question(asked["question"], answers, (own,), (own,), related))
    return documents, questions


def _hotpotqa(raw: Any) -> tuple[list[str], list[Question]]:
    contexts = [[(title, f"{title}\n{''.join(sentences)}") for title, sentences in one["context"]] for one in raw]
    documents = sorted({text for context in contexts for _, text in context})
    number = {text: place for place, text in enumerate(documents)}
    questions = []
    for one, context in zip(raw, contexts, strict=True):
        supporting = {title for title, _ in one["supporting_facts"]}
        own = tuple(dict.fromkeys(number[text] for _, text in context))
        answered_by = tuple(dict.fromkeys(number[text] for title, text in context if title in supporting))
        questions.append(Question(one["question"], (one["answer"],), own, answered_by))
    return documents, questions
