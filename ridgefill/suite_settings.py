"""Settings of the suites that an experiment may have beside retrieval and documents; each is left out by default.

``arms`` names the arms a suite runs, all of the experiment's when it is not given.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

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


class ShortRequests(Frozen):
    """Requests too short to fill, on a server that fills and on the stock one in turn.

    prompt, new_tokens: tokens of each. pairs: of the cases that have short requests alone. burst: long prompts before
    the second of these. rounds: of the mix, one long prompt and six short ones. pause: seconds before each turn of a
    server; an engine that has just answered waits busily for a while, and takes the other one's time.
    """

    prompt: Count
    new_tokens: Annotated[Count, Field(ge=2)]
    pairs: Count
    burst: Count
    rounds: Count
    pause: Annotated[float, Field(gt=0, le=60)] | None = Field(default=None, exclude_if=lambda value: value is None)


class ServedSuite(Frozen):
    """The OpenAI-compatible server of an engine, filled by this project's plugin and measured at the client.

    lengths: prompts whose time to first token is taken, ``repeats`` times filled and exact in turn. dtype: of the
    model in the server. chunk: most rows of a step. min_filled: least rows before the tail that are filled. users: how
    many decode while the longest prompt is prefilled, ``runs`` times filled and exact in turn; each has a prompt of
    ``user_prompt`` tokens and decodes ``new_tokens``. short: see there; ``long``: tokens of the long prompts among
    those. arm: of the experiment, one that fills by maps and has a tail alone.
    """

    lengths: Annotated[tuple[Count, ...], Field(min_length=1)]
    repeats: Annotated[Count, Field(ge=5)]
    dtype: Literal["float32", "bfloat16"]
    chunk: Count
    min_filled: Count
    users: Count
    user_prompt: Count
    new_tokens: Annotated[Count, Field(ge=2)]
    runs: Count
    long: Count
    short: ShortRequests
    arm: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$")] = "ridgefill"

    _lengths = field_validator("lengths")(increasing)

    @property
    def arms(self) -> tuple[str, ...]:
        """The one arm that it runs."""
        return (self.arm,)

    def wrong_size(self, tail: int, context: int) -> str | None:
        """What is not as it is meant to be: long prompts are filled, short ones are not, and all fit; None if all is.

        tail, context: of the experiment and of its model, in tokens.
        """
        least = tail + self.min_filled
        long = {"lengths": self.lengths[0], "long": self.long}
        short = {"short.prompt": self.short.prompt, "user_prompt": self.user_prompt}
        whole = {
            "lengths": self.lengths[-1],
            "long plus short.new_tokens": self.long + self.short.new_tokens,
            "user_prompt plus new_tokens": self.user_prompt + self.new_tokens,
        }
        for name, size in (*long.items(), *short.items()):
            if (name in short) == (size >= least):
                how = ("fewer than", "would be") if name in short else ("at least", "would not be")
                return (
                    f"suites.served.{name} is {size} tokens, which {how[1]} filled; expected {how[0]} the tail and "
                    f"min_filled together, {least}"
                )
        for name, size in whole.items():
            if size > context:
                return f"suites.served.{name} is {size} tokens; expected them to fit in the context ({context})"
        return None
