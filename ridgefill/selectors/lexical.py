"""Lexical net: prefix sentences that say again, word for word, something rare that the prompt's end says.

The paper's own rules for words and sentences (its Appendix H) are not published with its text. Here a word is a run of
letters, digits and underscores, compared without case; a sentence ends after ``.``, ``!`` or ``?`` before white space,
at a line break, and at every control or chat-template token; sentences share the cap in reading order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

from ridgefill.selectors.context import Context, Need, Selector, whole_share

_WORD = re.compile(r"\w+")
_END = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’)\]])\s+|(?<=[。！？])|[\n\r\0]+")
_HIDDEN = "\0"


@dataclass(frozen=True)
class LexicalNet(Selector):
    """Sentences of the prefix that share a run of ``run`` words with the last ``window`` content tokens.

    The run must hold a word that occurs at most ``occurrences`` times in the prefix. Of each sentence at most the
    first ``sentence_rows`` tokens are kept, and at most ``share`` of the prefix in all (paper section 2.4). Content
    tokens are those that are neither control tokens nor a chat template's. A window longer than the tail reaches into
    the prefix, where a sentence shares itself.
    """

    run: int = 4
    window: int = 64
    occurrences: int = 2
    sentence_rows: int = 80
    share: float = 0.05
    needs: ClassVar[frozenset[Need]] = frozenset({"prompt", "special", "template"})

    def rows(self, context: Context) -> tuple[int, ...]:
        """See ``Selector.rows``."""
        hidden = _hidden_rows(context)
        content = [row for row in range(context.tokens) if row not in hidden][-self.window :]
        text = _Text(context, hidden)
        asked = set(self._runs([word for word in text.words if content and word.first >= content[0]]))
        counts = Counter(word.text for word in text.words if word.last < context.prefix)
        caught: dict[int, None] = {}
        for start, stop, words in text.sentences(context.prefix):
            rare = (run for run in self._runs(words) if min(counts[word] for word in run) <= self.occurrences)
            if not asked.isdisjoint(rare):
                caught |= dict.fromkeys(islice(text.rows(start, stop, context.prefix), self.sentence_rows))
        return tuple(sorted(list(caught)[: whole_share(self.share, context.prefix)]))

    def _runs(self, words: Sequence[_Word]) -> Iterator[tuple[str, ...]]:
        """Runs of ``run`` words; around each word of a longer shared run there is a shared one of this length."""
        for place in range(len(words) - self.run + 1):
            part = words[place : place + self.run]
            if part[0].block == part[-1].block:
                yield tuple(word.text for word in part)


@dataclass(frozen=True)
class _Word:
    """A word: its first character, its first and last token, and how many hidden stretches came before it."""

    text: str
    start: int
    first: int
    last: int
    block: int


class _Text:
    """A prompt's characters with those of hidden tokens blanked, so that no word or sentence reaches across them."""

    def __init__(self, context: Context, hidden: set[int]) -> None:
        text, self.offsets = context.prompt()
        chars = list(text)
        # First and last token of every character: several tokens may share one, and some characters have none.
        self.first: list[int | None] = [None] * len(text)
        self.last: list[int | None] = [None] * len(text)
        for row, (low, high) in enumerate(self.offsets):
            self.last[low:high] = [row] * (high - low)
            self.first[low:high] = [row if seen is None else seen for seen in self.first[low:high]]
            if row in hidden:
                chars[low:high] = _HIDDEN * (high - low)
        self.visible = "".join(chars)
        self.words = list(self._words())

    def sentences(self, prefix: int) -> Iterator[tuple[int, int, list[_Word]]]:
        """Characters of every sentence, white space around it left out, and its words that lie in the prefix."""
        words = [word for word in self.words if word.last < prefix]
        place, start = 0, 0
        for stop, after in [*(match.span() for match in _END.finditer(self.visible)), (len(self.visible),) * 2]:
            own = []
            while place < len(words) and words[place].start < stop:
                own.append(words[place])
                place += 1
            if own:
                sentence = self.visible[start:stop]
                yield stop - len(sentence.lstrip()), start + len(sentence.rstrip()), own
            start = after

    def rows(self, start: int, stop: int, prefix: int) -> Iterator[int]:
        """Prefix rows that hold any of the characters ``start`` to ``stop`` (excluded), ascending."""
        first = min(row for row in self.first[start:stop] if row is not None)
        last = max(row for row in self.last[start:stop] if row is not None)
        for row in range(first, min(last + 1, prefix)):
            low, high = self.offsets[row]
            if low < high and low < stop and high > start:
                yield row

    def _words(self) -> Iterator[_Word]:
        block, after = 0, 0
        for match in _WORD.finditer(self.visible):
            start, stop = match.span()
            block += _HIDDEN in self.visible[after:start]
            after = stop
            held = [row for row in (*self.first[start:stop], *self.last[start:stop]) if row is not None]
            if held:
                yield _Word(match.group().casefold(), start, min(held), max(held), block)


def _hidden_rows(context: Context) -> set[int]:
    """Positions of control and chat-template tokens."""
    control = {row for row in range(context.tokens) if context.ids[row] in context.special.control}
    return control.union(*(range(first, end) for first, end in context.template))
