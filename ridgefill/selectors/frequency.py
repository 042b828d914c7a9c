"""How often every token occurs in the calibration documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ridgefill.errors import TextError


@dataclass(frozen=True)
class Frequencies:
    """counts[t]: occurrences of token ``t`` in all documents together, for every token of the vocabulary."""

    counts: tuple[int, ...]

    @classmethod
    def of(cls, documents: Iterable[Sequence[int]], vocabulary: int) -> Frequencies:
        """Counted over documents of token ids. Raises ``TextError`` for an id outside the vocabulary."""
        found: Counter[int] = Counter()
        for document in documents:
            found.update(document)
        wrong = [token for token in found if not 0 <= token < vocabulary]
        if wrong:
            raise TextError(f"a document holds token {min(wrong)}; expected ids from 0 to {vocabulary - 1}")
        return cls(tuple(found[token] for token in range(vocabulary)))

    @cached_property
    def total(self) -> int:
        """Tokens of all documents together."""
        return sum(self.counts)

    def count(self, token: int) -> int:
        """Occurrences of a token. Raises ``TextError`` for one outside the vocabulary."""
        if not 0 <= token < len(self.counts):
            raise TextError(
                f"the prompt holds token {token}, but frequencies are known of {len(self.counts)}; count them with the "
                "prompt's own tokenizer"
            )
        return self.counts[token]

    def frequency(self, token: int) -> float:
        """Add-one unigram frequency, above 0 for a token that never occurred; ordered as the counts are."""
        return (self.count(token) + 1) / (self.total + len(self.counts))
