"""Overlap gate (EVALUATION section 1): calibration and evaluation texts share no run of 50 words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field

RUN = 50
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Finding:
    """A shared run of ``words`` words that begins at word ``start`` of the calibration text."""

    calibration: str
    evaluation: str
    start: int
    words: int

    def as_json(self) -> dict[str, str | int]:
        """The finding for a report."""
        return asdict(self)


@dataclass
class RunIndex:
    """Every run of ``run`` words of the texts added so far, with the id of the first text that has it.

    Words are compared without case and punctuation; runs are kept as 16-byte digests.
    """

    run: int = RUN
    _owner: dict[bytes, str] = field(default_factory=dict, init=False, repr=False)

    def add(self, text_id: str, text: str) -> None:
        """Index one text; a text shorter than a run adds nothing."""
        for digest in self._runs(text):
            self._owner.setdefault(digest, text_id)

    def findings(self, text_id: str, text: str) -> list[Finding]:
        """The longest shared runs of one text with the indexed ones, in reading order."""
        found: list[Finding] = []
        for start, digest in enumerate(self._runs(text)):
            owner = self._owner.get(digest)
            if owner is None:
                continue
            last = found[-1] if found else None
            if last and last.evaluation == owner and last.start + last.words == start + self.run - 1:
                found[-1] = Finding(text_id, owner, last.start, last.words + 1)
            else:
                found.append(Finding(text_id, owner, start, self.run))
        return found

    def _runs(self, text: str) -> Iterator[bytes]:
        words = _WORD.findall(text.lower())
        for start in range(len(words) - self.run + 1):
            joined = " ".join(words[start : start + self.run])
            yield hashlib.blake2b(joined.encode(), digest_size=16).digest()


def overlap(
    calibration: Iterable[tuple[str, str]], evaluation: Iterable[tuple[str, str]], run: int = RUN
) -> list[Finding]:
    """Shared runs between two sets of (id, text); empty when the gate holds."""
    index = RunIndex(run)
    for text_id, text in evaluation:
        index.add(text_id, text)
    return [finding for text_id, text in calibration for finding in index.findings(text_id, text)]
