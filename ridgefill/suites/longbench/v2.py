"""LongBench v2: two requests an item (reason, then name a letter), seeds for sampling, and the verdict.

The first request holds the document and is cut in the middle to ``PROMPT_TOKENS`` before it goes into the chat
template; the second repeats the question with the reasoning and without the document. Both are sampled at
``TEMPERATURE`` with a seed that depends on the item and the request, never on the arm.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ridgefill.errors import TextError
from ridgefill.suites.longbench import wording
from ridgefill.suites.longbench.cutting import CutText, Decode, Encode, cut_joined
from ridgefill.suites.longbench.files import CHOICES, V2Item
from ridgefill.suites.longbench.prompts import Source
from ridgefill.suites.longbench.records import read_whole

PROMPT_TOKENS = 120_000
REASONING_TOKENS = 1_024
ANSWER_TOKENS = 128
TEMPERATURE = 0.1

Request = Literal["reasoning", "answer"]
Status = Literal["ok", "no_answer", "empty"]

_QUESTION_MARKS = ("$Q$", *(f"$C_{letter}$" for letter in CHOICES))
_MARK = re.compile(r"\$(?:DOC|Q|C_[ABCD]|COT)\$")
_IN_PARENTHESES = re.compile(r"The correct answer is \(([A-D])\)")
_BARE = re.compile(r"The correct answer is ([A-D])")


@dataclass(frozen=True)
class V2Templates:
    """Templates of the two requests; ``source`` labels the results, the hashes are of the user's files."""

    source: Source
    reasoning: str
    answer: str
    reasoning_sha256: str | None
    answer_sha256: str | None


OWN = V2Templates("longbench-style", wording.V2_REASONING, wording.V2_ANSWER, None, None)
"""Our own wording."""


def read_v2_templates(reasoning: Path, answer: Path) -> V2Templates:
    """The user's copies of the official ``0shot_cot.txt`` and ``0shot_cot_ans.txt``.

    Raises TextError for a missing file or one without a mark that it must have: ``$Q$`` and ``$C_A$`` to
    ``$C_D$`` in both, ``$DOC$`` in the first, ``$COT$`` in the second.
    """
    first, first_hash = _read(Path(reasoning), "0shot_cot.txt", "$DOC$")
    second, second_hash = _read(Path(answer), "0shot_cot_ans.txt", "$COT$")
    return V2Templates("official", first, second, first_hash, second_hash)


def _read(path: Path, official: str, own_mark: str) -> tuple[str, str]:
    data = read_whole(path, f"the official {official}")
    try:
        template = data.decode("utf-8")
    except UnicodeDecodeError:
        raise TextError(f"{path} is not UTF-8 text; expected the official {official}") from None
    missing = [mark for mark in (own_mark, *_QUESTION_MARKS) if mark not in template]
    if missing:
        raise TextError(f"{path} lacks {', '.join(missing)}; expected the official {official}")
    return template, hashlib.sha256(data).hexdigest()


def reasoning_prompt(
    item: V2Item, templates: V2Templates, *, encode: Encode, decode: Decode, budget: int = PROMPT_TOKENS
) -> CutText:
    """The user turn of the first request, cut to ``budget`` tokens. Raises ConfigError for a budget below 2."""
    return cut_joined(_filled(templates.reasoning, item, ""), budget, encode, decode)


def answer_prompt(
    item: V2Item, reasoning: str, templates: V2Templates, *, encode: Encode, decode: Decode, budget: int = PROMPT_TOKENS
) -> CutText:
    """The user turn of the second request, after the model's ``reasoning``."""
    return cut_joined(_filled(templates.answer, item, reasoning), budget, encode, decode)


def _filled(template: str, item: V2Item, reasoning: str) -> str:
    """All marks at once, so that a document which contains a mark is left alone."""
    texts = {"$DOC$": item.context, "$Q$": item.question, "$COT$": reasoning}
    texts |= {f"$C_{letter}$": text for letter, text in zip(CHOICES, item.choices, strict=True)}
    return _MARK.sub(lambda mark: texts[mark.group()].strip(), template)


def seed_for_item(item: V2Item, request: Request, seed_for: Callable[[str], int]) -> int:
    """The sampling seed of one request, the same for every arm; ``seed_for`` gives 63 bits for a label."""
    return seed_for(f"sampling/longbench_v2/{item.id}/{request}")


def extract_choice(text: str) -> str | None:
    """The letter that an answer names, None when it names none.

    Asterisks are dropped first; then the phrase with the letter in parentheses is looked for anywhere, and
    only where there is none the phrase followed by a letter, which may begin a longer word.
    """
    plain = text.replace("*", "")
    match = _IN_PARENTHESES.search(plain) or _BARE.search(plain)
    return match.group(1) if match else None


@dataclass(frozen=True)
class V2Outcome:
    """What one arm made of one item.

    ``status``: ``ok`` when a letter was found; ``no_answer`` when none was (the item counts as wrong);
    ``empty`` when either request gave no text at all (the item leaves the denominator). ``correct`` is None
    exactly when the status is ``empty``.
    """

    item: str
    domain: str
    difficulty: str
    length: str
    choice: str | None
    correct: bool | None
    status: Status


def judge(item: V2Item, reasoning: str, answer: str) -> V2Outcome:
    """The outcome of an item from the two outputs as decoded; pass "" for a request that was not made."""
    empty = "" in (reasoning, answer)
    choice = None if empty else extract_choice(answer)
    status: Status = "empty" if empty else "ok" if choice else "no_answer"
    correct = None if empty else choice == item.answer
    return V2Outcome(item.id, item.domain, item.difficulty, item.length, choice, correct, status)
