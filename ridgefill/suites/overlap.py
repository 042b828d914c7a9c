"""Overlap gate (EVALUATION section 1): calibration and evaluation texts share no run of 50 words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field

RUN = 50
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Finding:
    """A shared run of ``words`` words that begins at word ``start`` of the calibration text.

    ``evaluation_start`` is the word where the evaluation text first has it; ``sha256`` is of the run's
    first words, as many as a run has, in lower case and joined by blanks. The words themselves are not
    kept, so a report may be published where the texts may not.
    """

    calibration: str
    evaluation: str
    start: int
    evaluation_start: int
    words: int
    sha256: str

    def as_json(self) -> dict[str, str | int]:
        """The finding for a report."""
        return asdict(self)


@dataclass
class RunIndex:
    """Every run of ``run`` words of the texts added so far, with the first text that has it, and where.

    Words are compared without case and punctuation; runs are kept as 16-byte digests.
    """

    run: int = RUN
    _owner: dict[bytes, tuple[str, int]] = field(default_factory=dict, init=False, repr=False)

    def add(self, text_id: str, text: str) -> None:
        """Index one text; a text shorter than a run adds nothing."""
        for start, digest in enumerate(self._runs(words_of(text))):
            self._owner.setdefault(digest, (text_id, start))

    def findings(self, text_id: str, text: str) -> list[Finding]:
        """The longest shared runs of one text with the indexed ones, in reading order."""
        found: list[Finding] = []
        words = words_of(text)
        for start, digest in enumerate(self._runs(words)):
            owner, place = self._owner.get(digest, ("", 0))
            if not owner:
                continue
            last = found[-1] if found else None
            if last and last.evaluation == owner and last.start + last.words == start + self.run - 1:
                found[-1] = Finding(text_id, owner, last.start, last.evaluation_start, last.words + 1, last.sha256)
            else:
                sha256 = hashlib.sha256(_joined(words, start, self.run)).hexdigest()
                found.append(Finding(text_id, owner, start, place, self.run, sha256))
        return found

    def _runs(self, words: Sequence[str]) -> Iterator[bytes]:
        for start in range(len(words) - self.run + 1):
            yield hashlib.blake2b(_joined(words, start, self.run), digest_size=16).digest()


def words_of(text: str) -> list[str]:
    """The words of a text as the gate compares them: letters and digits in lower case, no punctuation."""
    return _WORD.findall(text.lower())


def _joined(words: Sequence[str], start: int, count: int) -> bytes:
    return " ".join(words[start : start + count]).encode()


def overlap(
    calibration: Iterable[tuple[str, str]], evaluation: Iterable[tuple[str, str]], run: int = RUN
) -> list[Finding]:
    """Shared runs between two sets of (id, text); empty when the gate holds."""
    index = RunIndex(run)
    for text_id, text in evaluation:
        index.add(text_id, text)
    return [finding for text_id, text in calibration for finding in index.findings(text_id, text)]
