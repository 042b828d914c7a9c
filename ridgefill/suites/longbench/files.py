"""The user's own LongBench files, read whole or refused: v1 as JSON lines, v2 as one JSON array.

v1: ``<dataset>.jsonl`` of the official archive, one object a line with ``input``, ``context``, ``answers``,
``length``, ``dataset``, ``language``, ``all_classes`` and ``_id``. v2: the official ``data.json``, objects with
``_id``, ``domain``, ``sub_domain``, ``difficulty``, ``length``, ``question``, ``choice_A`` to ``choice_D``,
``answer`` and ``context``. Further fields are passed over. Every refusal is a TextError that names the file
and the line (v2: the item's place in the array, from 1).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ridgefill.errors import TextError
from ridgefill.suites.longbench.datasets import Dataset, find_dataset
from ridgefill.suites.longbench.records import choice, load, number, read_whole, record, text, texts

CHOICES = ("A", "B", "C", "D")
DIFFICULTIES = ("easy", "hard")
LENGTHS = ("short", "medium", "long")


@dataclass(frozen=True)
class LongBenchItem:
    """One v1 item, the ``index``-th of its file (from 0).

    ``answers`` are the references, at least one; ``classes`` are all classes of a classification dataset,
    empty elsewhere; ``length`` is in words (characters in Chinese), as the file gives it.
    """

    dataset: str
    index: int
    id: str
    input: str
    context: str
    answers: tuple[str, ...]
    classes: tuple[str, ...]
    length: int
    language: str

    @property
    def name(self) -> str:
        """What the item is called in results; ids need not be unique, places in the file are."""
        return f"{self.dataset}-{self.index}"


@dataclass(frozen=True)
class V2Item:
    """One v2 question with its four ``choices`` in the order A to D; ``answer`` is the right letter."""

    id: str
    domain: str
    sub_domain: str
    difficulty: str
    length: str
    question: str
    choices: tuple[str, str, str, str]
    answer: str
    context: str


@dataclass(frozen=True)
class V1File:
    """The items of one v1 file in file order, and the SHA-256 of its bytes."""

    sha256: str
    items: tuple[LongBenchItem, ...]


@dataclass(frozen=True)
class V2File:
    """The items of a v2 file in file order (503 in the official one), and the SHA-256 of its bytes."""

    sha256: str
    items: tuple[V2Item, ...]


def read_v1(folder: Path, dataset: str) -> V1File:
    """The items of ``folder/<dataset>.jsonl``. Raises ConfigError for another dataset, TextError for the file."""
    known = find_dataset(dataset)
    path = Path(folder) / f"{dataset}.jsonl"
    data = read_whole(path, "the folder with the unpacked official LongBench data")
    items: list[LongBenchItem] = []
    for line, raw in enumerate(data.split(b"\n"), start=1):
        if raw.strip():
            where = f"{path} line {line}"
            items.append(_v1_item(known, len(items), record(load(raw, where), where), where))
    if not items:
        raise TextError(f"{path} holds no items; unpack the official LongBench data again")
    return V1File(hashlib.sha256(data).hexdigest(), tuple(items))


def _v1_item(dataset: Dataset, index: int, fields: Mapping[str, object], where: str) -> LongBenchItem:
    classes = () if fields.get("all_classes", ()) is None else texts(fields, "all_classes", where)
    item = LongBenchItem(
        dataset=text(fields, "dataset", where),
        index=index,
        id=text(fields, "_id", where),
        input=text(fields, "input", where),
        context=text(fields, "context", where),
        answers=texts(fields, "answers", where),
        classes=classes,
        length=number(fields, "length", where),
        language=text(fields, "language", where),
    )
    if item.dataset != dataset.name:
        raise TextError(f"{where} is of dataset {item.dataset!r}, expected {dataset.name!r} as the file is called")
    if not item.answers:
        raise TextError(f"{where} has no answers; expected at least one to score against")
    if dataset.metric == "classification" and not classes:
        raise TextError(f"{where} has no all_classes; {dataset.name} cannot be scored without its classes")
    pattern = dataset.reference_pattern
    for answer in item.answers:
        if pattern is not None and not re.search(pattern, answer):
            raise TextError(f"{where} has the answer {answer!r:.80}, expected one that matches {pattern!r}")
    return item


def read_v2(path: Path) -> V2File:
    """The items of a v2 JSON file, ids all different. Raises TextError."""
    path = Path(path)
    data = read_whole(path, "the official LongBench v2 file data.json")
    raw = load(data, str(path))
    if not isinstance(raw, list) or not raw:
        raise TextError(f"{path} holds {type(raw).__name__}, expected a JSON array of at least one item")
    items = tuple(_v2_item(entry, f"{path} item {place}") for place, entry in enumerate(raw, start=1))
    places: dict[str, int] = {}
    for place, item in enumerate(items, start=1):
        if item.id in places:
            raise TextError(f"{path} item {place} has the _id of item {places[item.id]}, {item.id!r}; remove one")
        places[item.id] = place
    return V2File(hashlib.sha256(data).hexdigest(), items)


def _v2_item(entry: object, where: str) -> V2Item:
    fields = record(entry, where)
    first, second, third, fourth = (text(fields, f"choice_{letter}", where) for letter in CHOICES)
    return V2Item(
        id=text(fields, "_id", where),
        domain=text(fields, "domain", where),
        sub_domain=text(fields, "sub_domain", where),
        difficulty=choice(fields, "difficulty", DIFFICULTIES, where),
        length=choice(fields, "length", LENGTHS, where),
        question=text(fields, "question", where),
        choices=(first, second, third, fourth),
        answer=choice(fields, "answer", CHOICES, where),
        context=text(fields, "context", where),
    )
