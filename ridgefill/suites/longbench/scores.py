"""Scores of v1 answers, defined as by the official code (THUDM 2e00731) and written anew; every one in 0..1.

Chinese F1 and ROUGE-L count the words that a segmenter finds. The official one is jieba, which is not part of
this project: hand over its ``lcut``.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ridgefill.errors import ConfigError, TextError
from ridgefill.suites.longbench.alignment import edit_ratio, rouge_l
from ridgefill.suites.longbench.datasets import Dataset, Metric, find_dataset

Segment = Callable[[str], Sequence[str]]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_CODE_NOISE = ("`", "#", "//")
# Full-width and CJK marks that the Chinese F1 drops besides ASCII punctuation: first and last code point.
_CHINESE_MARKS = (
    (0x2013, 0x2014), (0x2018, 0x2019), (0x201B, 0x201F), (0x2026, 0x2027), (0x3001, 0x3003), (0x300B, 0x3011),
    (0x3014, 0x301F), (0x3030, 0x3030), (0x303E, 0x303F), (0xFE4F, 0xFE4F), (0xFF01, 0xFF0D), (0xFF0F, 0xFF0F),
    (0xFF1A, 0xFF20), (0xFF3B, 0xFF40), (0xFF5B, 0xFF64),
)  # fmt: skip
_DROP = dict.fromkeys(map(ord, string.punctuation))
_DROP_CHINESE = _DROP | {code: None for first, last in _CHINESE_MARKS for code in range(first, last + 1)}


@dataclass(frozen=True)
class _Task:
    """What a scorer may look at besides the two texts."""

    dataset: Dataset
    classes: Sequence[str]
    segment: Segment | None

    def words(self, text: str) -> list[str]:
        """The segmenter's words of a Chinese text."""
        if self.segment is None:
            raise ConfigError(
                f"{self.dataset.name} is scored over Chinese words and no segmenter was given; "
                "install jieba and pass its lcut"
            )
        return list(self.segment(text))


def score(
    dataset: str,
    prediction: str,
    references: Sequence[str],
    *,
    classes: Sequence[str] = (),
    segment: Segment | None = None,
) -> float:
    """Best score of ``prediction`` over ``references``, in 0..1.

    ``classes`` are all classes of a classification dataset; ``segment`` cuts Chinese text into words. Raises
    ConfigError for an unknown dataset or a missing segmenter, TextError for missing or unfit references.
    """
    task = _Task(find_dataset(dataset), classes, segment)
    if not references:
        raise TextError(f"an answer of {dataset} cannot be scored without references; check the data file")
    answer = first_line(prediction) if task.dataset.first_line else prediction
    scorer = _SCORERS[task.dataset.metric]
    return max(scorer(answer, reference, task) for reference in references)


def first_line(prediction: str) -> str:
    """The first line after any line breaks the answer begins with."""
    return prediction.lstrip("\n").split("\n")[0]


def normalised(text: str) -> str:
    """SQuAD's normal form: lower case, no ASCII punctuation, no articles, single blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_DROP)).split())


def _chinese_word(word: str) -> str:
    return "".join(word.lower().translate(_DROP_CHINESE).split())


def _f1(prediction: str, reference: str, task: _Task) -> float:
    """Harmonic mean of precision and recall over words, repeated words counted as often as both have them."""
    if task.dataset.language == "zh":
        answer, target = ([kept for word in task.words(text) if (kept := _chinese_word(word))]
                          for text in (prediction, reference))  # fmt: skip
    else:
        answer, target = normalised(prediction).split(), normalised(reference).split()
    common = (Counter(answer) & Counter(target)).total()
    return 2 * common / (len(answer) + len(target)) if common else 0.0


def _rouge_l(prediction: str, reference: str, task: _Task) -> float:
    if task.dataset.language == "zh":
        prediction, reference = " ".join(task.words(prediction)), " ".join(task.words(reference))
    return rouge_l(prediction, reference)


def _classification(prediction: str, reference: str, task: _Task) -> float:
    """1 over the number of classes that the answer names, when the right one is among them, else 0.

    A named class that is only a part of the right one's name does not count, unless it follows another such
    class in the list: the official walk passes over the class after one it drops, and so does this one.
    """
    if not task.classes:
        raise TextError(f"an answer of {task.dataset.name} cannot be scored without classes; check the data file")
    named = [name for name in task.classes if name in prediction]
    place = 0
    while place < len(named):
        if named[place] in reference and named[place] != reference:
            named.remove(named[place])
        place += 1
    return 1.0 / len(named) if reference in named else 0.0


def _share_of_numbers(prediction: str, wanted: str) -> float:
    """Share of the answer's numbers, written digit for digit, that are ``wanted``; 0 without numbers."""
    numbers = re.findall(r"\d+", prediction)
    return numbers.count(wanted) / len(numbers) if numbers else 0.0


def _count(prediction: str, reference: str, task: _Task) -> float:
    return _share_of_numbers(prediction, reference)


def _retrieval(prediction: str, reference: str, task: _Task) -> float:
    pattern = task.dataset.reference_pattern or ""
    match = re.search(pattern, reference)
    if match is None:
        raise TextError(f"{task.dataset.name} has the reference {reference!r:.80}, expected one that has {pattern!r}")
    return _share_of_numbers(prediction, match.group(1))


def _code(prediction: str, reference: str, task: _Task) -> float:
    """Edit ratio of the first line that holds no back-tick, ``#`` or ``//``; of nothing when all do."""
    lines = prediction.lstrip("\n").split("\n")
    line = next((line for line in lines if not any(mark in line for mark in _CODE_NOISE)), "")
    return edit_ratio(line, reference)


_SCORERS: Mapping[Metric, Callable[[str, str, _Task], float]] = MappingProxyType(
    {
        "f1": _f1,
        "rouge_l": _rouge_l,
        "classification": _classification,
        "retrieval": _retrieval,
        "count": _count,
        "code": _code,
    }
)
