"""The arms of the paper's tables 3 and 6, and of ours, as frozen values: how each one treats the prefix rows.

Adding an arm is one line in ``arm_table``, a new rule for picking rows a file in ``selectors`` (docs/add-an-arm.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

from ridgefill.errors import ConfigError
from ridgefill.map_options import PLAIN, RidgeOptions
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.context import Selector
from ridgefill.selectors.controls import RandomRows
from ridgefill.selectors.digits import DigitTokens
from ridgefill.selectors.lexical import LexicalNet
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.protected import ProtectedTokens
from ridgefill.selectors.question import QuestionBlindRows
from ridgefill.selectors.special import SpecialTokens
from ridgefill.splits import pop_split

Fill = Literal["exact", "none", "identity", "ridge", "kva", "swiftkv"]
Part = Literal["keys", "values", "states"]
Scaled = Literal["key", "value"]
SplitLayer = Literal["exact", "mapped"]
Order = Literal["given", "question_first"]
RESCALE_ROWS = 512
"""Tail rows that a rescale is measured on (paper Table 4)."""


@dataclass(frozen=True)
class Arm:
    """One way of treating the prefix rows.

    fill: what late layers write for filled rows. split: first late layer, None for the exact arm. tail: rows at the
    end of the prompt that run every layer. rows: which prefix rows do so too, None for none. longer: share of the
    prompt's tokens that the tail grows by. matched: an arm whose multiply-accumulates this one is given on every
    prompt, by the length of its tail, or by the number of its rows when it has any. split_layer: ``exact`` writes the
    split layer's own rows from the true state, ``mapped`` from the map (METHOD section 2). maps: how they are fitted.
    rescale: parts of filled entries that are rescaled, measured on the first ``rescale_rows`` tail rows.
    state_correction: whether late recurrent states get their fitted offset. splice: parts of the filled cache that are
    replaced by exact ones. order: of the prompt. exact_rows: whose late layers exact rows and decoding run.
    """

    name: str
    fill: Fill
    split: int | None = None
    tail: int = 0
    rows: Selector | None = None
    longer: float = 0.0
    matched: Arm | None = None
    split_layer: SplitLayer = "exact"
    maps: RidgeOptions = PLAIN
    rescale: tuple[Scaled, ...] = ()
    rescale_rows: int = RESCALE_ROWS
    state_correction: bool = False
    splice: tuple[Part, ...] = ()
    order: Order = "given"
    exact_rows: Literal["original", "swiftkv"] = "original"

    def __post_init__(self) -> None:
        if self.fill not in get_args(Fill):
            raise ConfigError(f"arm {self.name} has fill {self.fill!r}; expected one of {', '.join(get_args(Fill))}")
        for sentence in _refusals(self):
            raise ConfigError(f"arm {self.name} {sentence}")

    @property
    def key(self) -> str:
        """Name with the split, unique within an experiment: ``ridgefill@19``."""
        return self.name if self.split is None else f"{self.name}@{self.split}"

    @property
    def chain(self) -> tuple[Arm, ...]:
        """The arm, the one that it is matched to, and so on."""
        return (self,) if self.matched is None else (self, *self.matched.chain)

    @property
    def needs(self) -> frozenset[str]:
        """What its selector reads of a prompt, and that of the arm that it is matched to."""
        own: frozenset[str] = frozenset() if self.rows is None else self.rows.needs
        return own if self.matched is None else own | self.matched.needs


def _refusals(arm: Arm) -> Iterator[str]:
    """What an arm asks for that no arm can have, or that would change nothing under its name."""
    amended = bool(arm.rescale or arm.state_correction or arm.splice)
    if arm.fill in ("exact", "none") and (arm.rows is not None or amended):
        what = "corrections or splices" if amended else "exact rows beside the tail"
        yield f"fills no row, so it cannot have {what}; take an arm that fills"
    if (arm.fill == "exact") != (arm.split is None):
        yield (
            "has no split; expected the first layer to fill"
            if arm.split is None
            else f"fills no row, so it cannot have the split {arm.split}; take another fill than exact"
        )
    if (arm.rescale or arm.state_correction) and arm.fill not in ("identity", "ridge"):
        yield (
            "predicts no layer inputs, so nothing can be measured on them; expected no correction, or the fill "
            "identity or ridge"
        )
    if arm.maps != PLAIN and arm.fill != "ridge":
        yield f"has the fill {arm.fill}, which reads no maps; leave maps out, or take the fill ridge"
    if arm.order == "question_first" and "question" in arm.needs:
        yield "moves the question in front of the prompt, where its selector sees it; take rows that may see it"
    if arm.matched is not None:
        yield from _unmatched(arm, arm.matched)


def _unmatched(arm: Arm, like: Arm) -> Iterator[str]:
    """Why ``arm`` cannot be given what ``like`` costs."""
    if "probe" in arm.needs:
        yield (
            "cannot be matched through a probe, which ranks rows only once they are filled; take another arm to match, "
            "or rows {kind: random, like: {kind: probe}}"
        )
    if arm.longer:
        yield "has a longer tail and is matched, which sets its tail or its rows; expected one of the two"
    if arm.split != like.split:
        yield f"is matched to {like.key} and has the split {arm.split}; expected both at one split"


@dataclass(frozen=True)
class ArmSettings:
    """What an experiment gives to all its arms. layers: of the model. window: last tokens that rank rows."""

    layers: int
    split: int
    tail: int
    rows_share: float = 0.1
    window: int = 64
    split_layer: SplitLayer = "exact"


def arm_table(s: ArmSettings) -> dict[str, Arm]:
    """Every arm by name, with an experiment's settings."""
    attended, blind = AttentionRows(s.rows_share, s.window), QuestionBlindRows(s.rows_share, s.window)
    drawn = RandomRows(s.rows_share)
    none = Arm("no_fill", "none", s.split, s.tail)
    identity = Arm("identity", "identity", s.split, s.tail, split_layer=s.split_layer)
    ridge = Arm("ridgefill", "ridge", s.split, s.tail, split_layer=s.split_layer)
    swiftkv = Arm("swiftkv_tail", "swiftkv", s.split, s.tail)
    arms = (
        Arm("exact", "exact"),
        none,
        identity,
        ridge,
        replace(identity, name="pop_native", split=pop_split(s.layers), tail=1, split_layer="exact"),
        swiftkv,
        replace(swiftkv, name="swiftkv_released", tail=1, exact_rows="swiftkv"),
        Arm("kva", "kva", s.split, s.tail),
        replace(identity, name="identity_rows", rows=attended),
        replace(identity, name="identity_random_rows", rows=drawn),
        replace(identity, name="identity_longer_tail", longer=s.rows_share),
        replace(identity, name="identity_question_blind_rows", rows=blind),
        replace(identity, name="identity_rows_question_first", rows=attended, order="question_first"),
        replace(ridge, name="ridgefill_rows", rows=attended),
        replace(ridge, name="ridgefill_random_rows", rows=drawn),
        replace(ridge, name="ridgefill_longer_tail", longer=s.rows_share),
        replace(ridge, name="ridgefill_question_blind_rows", rows=blind),
        replace(ridge, name="ridgefill_rows_question_first", rows=attended, order="question_first"),
        replace(none, name="no_fill_longer_tail", matched=ridge),
        replace(ridge, name="ridgefill_digits", rows=DigitTokens()),
        replace(ridge, name="ridgefill_special", rows=SpecialTokens()),
        replace(ridge, name="ridgefill_protected", rows=ProtectedTokens()),
        replace(ridge, name="ridgefill_lexical", rows=LexicalNet()),
        replace(ridge, name="ridgefill_probe", rows=ProbedRows()),
        replace(ridge, name="ridgefill_probe_random", rows=RandomRows(like=ProbedRows())),
        replace(ridge, name="scale_keys_tail", rescale=("key",)),
        replace(ridge, name="scale_values_tail", rescale=("value",)),
        replace(ridge, name="ridgefill_state_correction", state_correction=True),
        replace(ridge, name="splice_exact_keys", splice=("keys",)),
        replace(ridge, name="splice_exact_values", splice=("values",)),
        replace(ridge, name="splice_exact_keys_values", splice=("keys", "values")),
        replace(ridge, name="splice_exact_states", splice=("states",)),
        replace(ridge, name="splice_exact_all", splice=("keys", "values", "states")),
    )
    return {arm.name: arm for arm in arms}


ARM_NAMES = tuple(arm_table(ArmSettings(layers=2, split=1, tail=1)))
"""Names of all arms."""


def make_arm(
    name: str,
    *,
    layers: int,
    split: int,
    tail: int,
    rows_share: float,
    window: int = 64,
    split_layer: SplitLayer = "exact",
) -> Arm:
    """The arm ``name`` with an experiment's settings. Raises ``ConfigError`` for a name that is not known."""
    if name not in ARM_NAMES:
        raise ConfigError(f"arm {name!r} is not known; expected one of {', '.join(ARM_NAMES)}")
    if name != "exact" and not 0 < split < layers:
        raise ConfigError(f"split {split} is outside the model; expected 1 to {layers - 1}")
    return arm_table(ArmSettings(layers, split, tail, rows_share, window, split_layer))[name]
