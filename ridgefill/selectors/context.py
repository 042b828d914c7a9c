"""What a selector sees of a prompt, and what a selector is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from ridgefill.errors import ConfigError, TextError
from ridgefill.selectors.frequency import Frequencies
from ridgefill.selectors.tokens import Span, SpecialIds

if TYPE_CHECKING:
    from torch import Tensor

    from ridgefill.cost import Geometry
    from ridgefill.models.base import Adapter
    from ridgefill.passes import LowerPass

_T = TypeVar("_T")

Need = Literal["lower", "probe", "texts", "prompt", "special", "template", "question", "frequencies"]
"""What a selector reads of a prompt beside its ids and seed; whoever makes the context asks for it beforehand."""


@dataclass(frozen=True)
class Window:
    """Inputs ``[1, end - first, width]`` of the ranking layers on the rows ``first`` to ``end`` (excluded)."""

    first: int
    end: int
    inputs: Mapping[int, Tensor]


@dataclass(frozen=True)
class Context:
    """One prompt as selectors see it. Each reads only the fields that it needs; those it lacks are refused by name.

    ids: token ids. prefix: rows before the tail. texts: each token's own text. text, offsets: the prompt's text and
    each token's characters in it. special: ids of special tokens. template: position spans that a chat template
    wrote. question: the question's positions, an empty span where there is none, None where nobody said. seed: the
    sample's own, 63 bits. frequencies: of tokens in the calibration documents. lower: the lower pass, made in one go
    or in chunks. windows: further rows whose inputs it kept. probe: number of probing rows -> all prefix positions,
    the most attended first, once a first sweep has filled the late caches.
    """

    ids: tuple[int, ...]
    prefix: int
    texts: tuple[str, ...] | None = None
    text: str | None = None
    offsets: tuple[Span, ...] | None = None
    special: SpecialIds = field(default_factory=SpecialIds)
    template: tuple[Span, ...] = ()
    question: Span | None = None
    seed: int = 0
    frequencies: Frequencies | None = None
    adapter: Adapter | None = field(default=None, compare=False)
    lower: LowerPass | None = field(default=None, compare=False)
    windows: tuple[Window, ...] = field(default=(), compare=False)
    probe: Callable[[int], tuple[int, ...]] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.prefix <= self.tokens:
            raise ConfigError(f"a prefix of {self.prefix} rows was given for {self.tokens} tokens; expected 0 to that")
        for name in ("texts", "offsets"):
            given = getattr(self, name)
            if given is not None and len(given) != self.tokens:
                raise TextError(f"{len(given)} {name} were given for {self.tokens} tokens; expected one for each")
        if self.text is not None and any(high > len(self.text) for _, high in self.offsets or ()):
            raise TextError(f"the tokens' offsets go beyond the text's {len(self.text)} characters; expected its own")

    @classmethod
    def around(cls, adapter: Adapter, lower: LowerPass, seed: int = 0) -> Context:
        """A context that knows of its prompt only the lower pass: enough for rules that read attention, or nothing."""
        return cls((0,) * lower.tokens, 0, seed=seed, adapter=adapter, lower=lower)

    @property
    def tokens(self) -> int:
        """Tokens of the prompt."""
        return len(self.ids)

    @property
    def tail(self) -> int:
        """Rows at the end that run every layer."""
        return self.tokens - self.prefix

    def token_texts(self) -> tuple[str, ...]:
        """Each token's text; ConfigError where the context has none."""
        return _given(self.texts, "the texts of the tokens")

    def token_frequencies(self) -> Frequencies:
        """Frequencies of tokens; ConfigError where the context has none."""
        return _given(self.frequencies, "the frequencies of tokens in the calibration documents")

    def prompt(self) -> tuple[str, tuple[Span, ...]]:
        """The prompt's text and each token's characters in it; ConfigError where the context has none."""
        return _given(self.text, "the prompt's text"), _given(self.offsets, "the tokens' offsets")

    def lower_pass(self) -> tuple[Adapter, LowerPass]:
        """Adapter and lower pass; ConfigError where the context has none."""
        return _given(self.adapter, "an adapter"), _given(self.lower, "the lower layers' pass")

    def inputs(self, first: int, end: int) -> Mapping[int, Tensor]:
        """Inputs of the ranking layers on the rows ``first`` to ``end`` (excluded), by layer.

        Raises ``ConfigError`` when the lower pass did not keep these rows, or no ranking layer lies below its split.
        """
        lower = _given(self.lower, "the lower layers' pass")
        kept = [Window(*lower.window, lower.window_inputs), *self.windows]
        for window in kept:
            if window.first <= first and end <= window.end:
                if not window.inputs:
                    raise ConfigError(
                        f"no layer below split {lower.split} ranks rows by attention; expected a deeper split, or a "
                        "selector that does not read attention"
                    )
                rows = slice(first - window.first, end - window.first)
                return {layer: x[:, rows] for layer, x in window.inputs.items()}
        spans = ", ".join(f"{window.first} to {window.end - 1}" for window in kept)
        raise ConfigError(
            f"the lower pass kept layer inputs of rows {spans}; rows {first} to {end - 1} rank the prefix here, so "
            "run it with a window that holds them"
        )


@dataclass(frozen=True)
class Work:
    """A prompt's size, for the cost of selecting; ``selected`` prefix rows were picked in the end."""

    geometry: Geometry
    tokens: int
    prefix: int
    split: int
    selected: int = 0


class Selector(ABC):
    """A rule that picks prefix rows.

    needs: what ``rows`` reads of the context beside ids and seed.
    """

    needs: ClassVar[frozenset[Need]] = frozenset()

    @abstractmethod
    def rows(self, context: Context) -> tuple[int, ...]:
        """Picked positions, each below ``context.prefix``, ascending, each once."""

    def windows(self, tokens: int, prefix: int) -> tuple[Span, ...]:
        """Rows of a prompt whose inputs to the ranking layers it reads; none for a rule that reads text."""
        return ()

    def macs(self, work: Work) -> int:
        """Multiply-accumulates of picking them, what the rows themselves cost not included; none for reading text."""
        return 0


def rounded_share(share: float, count: int) -> int:
    """``share`` of ``count``, to the nearest whole number, halves to the even one."""
    return round(_decimal(share) * count)


def whole_share(share: float, count: int) -> int:
    """The most that is at most ``share`` of ``count``."""
    return int(_decimal(share) * count)


def _decimal(share: float) -> Fraction:
    """The share as it is written: a twentieth of 20 is 1, whatever 0.05 is in binary."""
    return Fraction(repr(float(share)))


def _given(value: _T | None, what: str) -> _T:
    if value is None:
        raise ConfigError(f"this selector reads {what}, which the context lacks; give it to the context")
    return value
