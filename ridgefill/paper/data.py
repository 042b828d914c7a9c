"""The values of ``data/paper``: cells of tables, facts, settings, what each table shows, what follows from what."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ridgefill.errors import ConfigError, ResultsError
from ridgefill.paper.intervals import Interval, attainable, printed

STATUSES = ("printed", "derived", "elsewhere", "n/a", "not run")
LAYOUTS = ("arms", "metrics", "splits")
# Units of measured quantities; every other unit counts things, so that a whole number is exact.
MEASURED = {
    "%", "points", "nats", "x", "s", "ms", "MiB", "GiB", "tok/s", "K tokens", "x share", "cosine", "relative",
    "MiB per filled layer", "% of prompt tokens", "% of prefix", "% of late-layer rows", "% of prompt",
}  # fmt: skip
PARTS_PER_SAMPLE = 4
"""A RULER needle sample has one to four values, so its score is a multiple of a quarter (EVALUATION section 1)."""


@dataclass(frozen=True)
class Cell:
    """One number of one table. ``value`` and the bounds are decimals as printed, None where there is none.

    status: ``printed``; ``derived`` and ``elsewhere`` where the table prints only the interval and the point is
    the difference of its arms, or stands in another table; ``n/a`` and ``not run`` without a value. With
    ``baseline`` the value is arm minus baseline, or, in unit ``x``, time of the baseline over time of the arm.
    """

    ref: str
    model: str
    split: int | None
    tail: int | None
    arm: str
    baseline: str
    metric: str
    n: int | None
    value: str | None
    ci_low: str | None
    ci_high: str | None
    unit: str
    sign_restored: bool
    status: str
    note: str

    @property
    def treatment(self) -> str:
        """Arm, split, tail and baseline in one word: ``ridgefill@12/4096-identity``."""
        split = "" if self.split is None else f"@{self.split}"
        tail = "" if self.tail is None else f"/{self.tail}"
        return f"{self.arm}{split}{tail}" + (f"-{self.baseline}" if self.baseline else "")

    @property
    def key(self) -> str:
        """What a formula calls this cell: ``Table 17: llama-3.1-8b ridgefill@12/4096 nll_novel``."""
        return f"{self.ref}: {self.model} {self.treatment} {self.metric}"

    def interval(self) -> Interval:
        """All numbers that print as this cell; of a needle score only those that ``n`` samples can reach."""
        if self.value is None:
            raise ResultsError(f"{self.key} has no value ({self.status}); a formula may only name cells with one")
        found = printed(self.value, self.unit in MEASURED)
        if self.metric.startswith("ruler_filled") and self.n:
            return attainable(found, self.n * PARTS_PER_SAMPLE) or found
        return found


@dataclass(frozen=True)
class Fact:
    """One number of the text: a count, a limit, a size; ``value`` as printed, sometimes a list of numbers."""

    ref: str
    name: str
    value: str
    unit: str
    note: str

    @property
    def key(self) -> str:
        """What a formula calls this fact: ``sec 5.3: ceiling_9k``."""
        return f"{self.ref}: {self.name}"

    def interval(self) -> Interval:
        """All numbers that print as this fact."""
        return printed(self.value, self.unit in MEASURED)


@dataclass(frozen=True)
class Setting:
    """One setting of a deployment (``subject`` is its model or measure)."""

    ref: str
    deployment: str
    subject: str
    setting: str
    value: str
    unit: str
    note: str

    @property
    def key(self) -> str:
        """What a formula calls this setting: ``Table 4: llama-3.1-8b split``."""
        return f"{self.ref}: {self.subject} {self.setting}"

    def interval(self) -> Interval:
        """The setting as a number; settings are exact."""
        return printed(self.value, measured=False)


@dataclass(frozen=True)
class Entry:
    """What a table is about, in our words, and which of its axes run down and across (``LAYOUTS``)."""

    ref: str
    title: str
    layout: str


@dataclass(frozen=True)
class Derivation:
    """A published number and the formula it follows from; ``holds`` says whether it does, ``note`` why not."""

    target: str
    formula: str
    holds: bool
    note: str


@dataclass(frozen=True)
class Paper:
    """Everything in ``data/paper``."""

    root: Path
    cells: tuple[Cell, ...]
    facts: tuple[Fact, ...]
    settings: tuple[Setting, ...]
    index: tuple[Entry, ...]
    derivations: tuple[Derivation, ...]

    def numbers(self) -> dict[str, Interval]:
        """Everything a formula can name, by what it calls it; bounds of intervals end in ``low`` and ``high``."""
        found = {one.key: one.interval() for one in self.cells if one.value is not None}
        for cell in self.cells:
            bounds = {"low": cell.ci_low, "high": cell.ci_high}
            found |= {f"{cell.key} {side}": printed(text) for side, text in bounds.items() if text is not None}
        others: list[Fact | Setting] = [*self.facts, *self.settings]
        for one in others:
            with suppress(ValueError):
                found[one.key] = one.interval()
        return found

    def table(self, ref: str) -> tuple[Entry, tuple[Cell, ...]]:
        """The table called ``ref``: ``17``, ``A.1``, ``Table 17`` or ``sec 6.4``. ConfigError when there is none."""
        words = {ref.lower(), f"table {ref}".lower()}
        for entry in self.index:
            if entry.ref.lower() in words:
                return entry, tuple(cell for cell in self.cells if cell.ref == entry.ref)
        known = ", ".join(entry.ref.removeprefix("Table ") for entry in self.index)
        raise ConfigError(f"the paper's numbers have no table {ref!r}; expected one of {known}")
