"""RULER's thirteen tasks (EVALUATION section 1): made here in our own wording, or read from a user's files; and ours in
the language of the hybrids.

Samples made here are labelled ``ruler-style``: RULER's parameters, our sentences. Samples of files that the
pinned generator wrote are labelled ``official`` (:mod:`ridgefill.suites.ruler.official`).
"""

from ridgefill.suites.needles import (
    FilledRegion,
    Needle,
    RulerSample,
    TokenSpan,
    filled_region,
    locate_needles,
    question_first,
)
from ridgefill.suites.ruler.language import LANGUAGE_TASKS, language_samples
from ridgefill.suites.ruler.making import generate
from ridgefill.suites.ruler.tasks import TASKS, Task, find_task
from ridgefill.suites.words import Words

__all__ = [
    "LANGUAGE_TASKS",
    "TASKS",
    "FilledRegion",
    "Needle",
    "RulerSample",
    "Task",
    "TokenSpan",
    "Words",
    "filled_region",
    "find_task",
    "generate",
    "language_samples",
    "locate_needles",
    "question_first",
]
