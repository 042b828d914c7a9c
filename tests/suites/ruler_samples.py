"""Material and a tokenizer for the tests of RULER's tasks, so that none needs a download."""

import re
from pathlib import Path

from ridgefill.suites.haystack import Essays
from ridgefill.suites.questions import small_set
from ridgefill.suites.ruler import TASKS, generate
from ridgefill.suites.ruler.making import Maker
from ridgefill.suites.ruler.plans import Material
from ridgefill.suites.words import Words

WORDS = Words(tuple(f"adj{i}" for i in range(60)), tuple(f"noun{i}" for i in range(600)))
ESSAYS = " ".join(f"Sentence {i} says a thing about matter {i * 7 % 11}." for i in range(900))
SMALL = Path(__file__).parents[2] / "data/texts/qa_small.json"
QUESTIONS = {task: small_set(task, SMALL) for task in ("qa_1", "qa_2")}
SHORT = {task: 640 if task == "cwe" else 512 for task in TASKS}


def tokenize(text):
    """Words and signs."""
    return re.findall(r"\w+|[^\w\s]", text)


def make(task, length=None, count=3, **options):
    """Samples of a task, at its short length if none is given."""
    settings = {"seed": 42, "tokenize": tokenize, "words": WORDS, "essays": ESSAYS, "questions": QUESTIONS} | options
    return generate(task, length or SHORT[task], count, **settings)


def maker(task, length=None):
    """What makes them, with its draws open to view."""
    return Maker(TASKS[task], length or SHORT[task], 42, tokenize, Material(WORDS, Essays(ESSAYS), QUESTIONS))


def used(sample):
    """Tokens of the prompt."""
    return len(tokenize(sample.question_prompt + sample.answer_prefix))


def cut(sample, start, end):
    """Characters of the turn."""
    return sample.question_prompt[start:end]
