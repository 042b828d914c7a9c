"""What a search is asked for."""

from __future__ import annotations

from dataclasses import dataclass

NEW_TOKENS = 64
"""Tokens of an answer: four seven-digit numbers as a list are fewer."""
SCORED_TOKENS = 256
"""Tokens after a document's prompt whose loss is taken."""


@dataclass(frozen=True)
class Settings:
    """What a search is asked for. tokens: of a prompt. budget: share of exact's multiply-accumulates. samples, confirm:
    filled-region samples of development's last round and of confirmation. fit_tokens: to fit on. maps: folders of maps
    fitted before, none to fit here. splits, tails: to try, none for the default ones."""

    model: str
    tokens: int
    budget: float
    samples: int
    confirm: int
    seed: int
    fit_tokens: int
    maps: tuple[str, ...] = ()
    splits: tuple[int, ...] = ()
    tails: tuple[int, ...] = ()

    @property
    def document_tokens(self) -> int:
        """Tokens of a document: its prompt and the scored stretch."""
        return self.tokens + SCORED_TOKENS

    @property
    def chunk(self) -> int:
        """Tokens of a calibration piece."""
        return min(2048, self.tokens)
