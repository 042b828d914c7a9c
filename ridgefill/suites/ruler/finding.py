"""Where the needles of an official sample lie: found in its text from the references.

The files do not say where their needles are, so each task has a rule:

* ``niah``: the sentences that give a key its value. Queried are those whose value is a reference and whose key
  the question names; the rest are distractors, unless the haystack itself is made of such sentences
  (``multikey_2``, ``multikey_3``). When no such sentence holds a reference, every line or sentence that holds
  it counts.
* ``vt``: every statement that assigns a referenced variable; the solved example has other variables.
* ``qa``: the files do not name the answer's document, so every document that holds a reference counts,
  whatever the case: the sample is in the filled region only when all of them are. An answer that no document
  holds (as yes and no) leaves the sample without needles, so outside the region.
* ``cwe``, ``fwe``: none, as nothing is in one place.

A reference that occurs in several places therefore counts in each, and one of ``niah`` or ``vt`` that occurs
nowhere is an error, because the generator always hides it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ridgefill.errors import TextError
from ridgefill.suites.needles import Needle

_KEYED = re.compile(r"magic \w+ for (?P<key>[^:\n]+?) is: (?P<value>[^\s]+?)\.(?=\s|$)")
_HEADING = re.compile(r"^Document \d+:\n", re.MULTILINE)
_ENDS = ".!?\n"
_NEEDLES_IN_NEEDLES = ("niah_multikey_2", "niah_multikey_3")


@dataclass(frozen=True)
class OfficialText:
    """What needles are found from; ``context`` is the turn before its question, ``where`` file and line."""

    task: str
    context: str
    question: str
    references: tuple[str, ...]
    where: str


def find_needles(text: OfficialText) -> tuple[Needle, ...]:
    """The needles of one official sample, in reading order, at their characters in the turn.

    Raises TextError, naming file and line, when a reference of a ``niah`` or ``vt`` sample does not occur.
    """
    found = _FINDERS[text.task.partition("_")[0]](text)
    return tuple(sorted(found, key=lambda needle: needle.char_start))


def _keyed(text: OfficialText) -> list[Needle]:
    found = []
    for match in _KEYED.finditer(text.context):
        queried = match["value"] in text.references and match["key"] in text.question
        if queried or text.task not in _NEEDLES_IN_NEEDLES:
            found.append(_needle(text.context, _sentence_start(text.context, match.start()), match.end(), queried))
    for reference in text.references:
        if not any(needle.queried and reference in needle.text for needle in found):
            found += _sentences_with(reference, text)
    return found


def _needle(context: str, start: int, end: int, queried: bool = True) -> Needle:
    return Needle(context[start:end], queried, start, end)


def _sentence_start(context: str, place: int) -> int:
    start = 1 + max(context.rfind(end, 0, place) for end in _ENDS)
    before = context[start:place]
    return start + len(before) - len(before.lstrip(" \t\"')]"))


def _sentences_with(reference: str, text: OfficialText) -> list[Needle]:
    places = [match.span() for match in re.finditer(re.escape(reference), text.context)]
    if not places:
        raise TextError(f"{text.where} does not hold its reference {reference!r} in the input; make the file again")
    found = []
    for low, high in places:
        ends = [place for place in (text.context.find(mark, high) for mark in _ENDS) if place >= 0]
        end = min(ends) + 1 if ends else len(text.context)
        start = _sentence_start(text.context, low)
        found.append(_needle(text.context, start, start + len(text.context[start:end].rstrip("\n"))))
    return found


def _assigned(text: OfficialText) -> list[Needle]:
    found = []
    for name in text.references:
        statement = rf"(?:\bVAR )?\b{re.escape(name)} = (?:VAR )?\w+"
        spans = [match.span() for match in re.finditer(statement, text.context)]
        if not spans:
            raise TextError(f"{text.where} does not assign its reference {name!r} in the input; make the file again")
        found += [_needle(text.context, *span) for span in spans]
    return found


def _documents(text: OfficialText) -> list[Needle]:
    headings = list(_HEADING.finditer(text.context))
    if not headings:
        raise TextError(f"{text.where} has no line 'Document 1:' in the input; make the file again")
    # After the last document RULER repeats its instruction, set off like a document.
    last = max(text.context.rstrip().rfind("\n\n"), headings[-1].end())
    ends = [*(heading.start() for heading in headings[1:]), last]
    found = []
    for heading, end in zip(headings, ends, strict=True):
        document = text.context[heading.end() : end].rstrip()
        if any(reference.lower() in document.lower() for reference in text.references):
            found.append(_needle(text.context, heading.end(), heading.end() + len(document)))
    return found


def _nowhere(text: OfficialText) -> list[Needle]:
    return []


_FINDERS: Mapping[str, Callable[[OfficialText], list[Needle]]] = MappingProxyType(
    {"niah": _keyed, "vt": _assigned, "cwe": _nowhere, "fwe": _nowhere, "qa": _documents}
)
