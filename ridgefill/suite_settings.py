"""Settings of the suites that an experiment may have beside retrieval and documents; each is left out by default.

``arms`` names the arms a suite runs, all of the experiment's when it is not given.
"""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from ridgefill.sizes import Count, Frozen, increasing

Arms = Annotated[tuple[Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$")], ...], Field(min_length=1)]
Path = Annotated[str, Field(min_length=1)]
SECOND_QUESTION = 128
"""Tokens that a second turn may take before its answer: the question and what the chat template puts around it."""


def unset(value: object) -> bool:
    """Whether an optional setting was not given, so that it is left out of what is hashed."""
    return value is None


class AgreementSuite(Frozen):
    """The exact arm's greedy continuation of ``documents`` documents, ``new_tokens`` each, fed to every arm.

    lengths: prompt tokens, over which the documents are balanced. The documents are those of the documents suite.
    """

    documents: Count
    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    new_tokens: Count = 512
    arms: Arms | None = Field(default=None, exclude_if=unset)

    _lengths = field_validator("lengths")(increasing)


class TurnsSuite(Frozen):
    """A second question about the same text, asked of a cache that was filled for the first; ``samples`` per length.

    lengths: tokens of both turns, answers included. new_tokens: budget of each answer.
    """

    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    samples: Count
    new_tokens: Count = 128
    arms: Arms | None = Field(default=None, exclude_if=unset)

    _lengths = field_validator("lengths")(increasing)


class LongBenchV1Suite(Frozen):
    """LongBench v1 from the user's files: ``samples`` of each dataset, prompts cut to ``budget`` tokens."""

    folder: Path
    datasets: Annotated[tuple[str, ...], Field(min_length=1)]
    samples: Count
    budget: Count
    templates: Path | None = Field(default=None, exclude_if=unset)
    arms: Arms | None = Field(default=None, exclude_if=unset)


class LongBenchV2Suite(Frozen):
    """LongBench v2 from the user's file: the first ``samples`` items, all when not given."""

    file: Path
    budget: Count = 120_000
    samples: Count | None = Field(default=None, exclude_if=unset)
    reasoning_template: Path | None = Field(default=None, exclude_if=unset)
    answer_template: Path | None = Field(default=None, exclude_if=unset)
    arms: Arms | None = Field(default=None, exclude_if=unset)


class SpeedSuite(Frozen):
    """Time to first token: ``repeats`` timed requests of every arm at every length, alternating with exact."""

    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    repeats: Annotated[Count, Field(ge=5)]
    arms: Arms | None = Field(default=None, exclude_if=unset)

    _lengths = field_validator("lengths")(increasing)


class ServingSuite(Frozen):
    """One long prompt, in chunks of ``chunk`` tokens, among ``users`` who decode ``new_tokens`` each."""

    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    users: Count
    user_prompt: Count
    new_tokens: Count
    chunk: Count
    repeats: Count
    arms: Arms | None = Field(default=None, exclude_if=unset)

    _lengths = field_validator("lengths")(increasing)

    @model_validator(mode="after")
    def _users_outlast_the_prompt(self) -> Self:
        chunks = -(-self.lengths[-1] // self.chunk)
        if self.new_tokens <= chunks:
            raise ValueError(
                f"new_tokens ({self.new_tokens}) must exceed the {chunks} chunks of the longest prompt, after each of "
                "which every user gets a token"
            )
        return self
