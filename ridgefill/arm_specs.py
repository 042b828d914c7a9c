"""Arms as an experiment's file writes them: a name of the table, or one of its arms with parameters changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from ridgefill.arms import ARM_NAMES, Arm, ArmSettings, Fill, Order, Part, Scaled, SplitLayer, arm_table
from ridgefill.errors import ConfigError
from ridgefill.map_options import LamFor, RidgeOptions, Towards
from ridgefill.selectors.named import SELECTORS, selector_from
from ridgefill.sizes import Count, Frozen


def _known_arm(name: str) -> str:
    if name not in ARM_NAMES:
        raise ValueError(f"unknown arm {name!r}; known: {', '.join(ARM_NAMES)}")
    return name


def _known_rows(spec: object) -> object:
    if spec is None or spec == "none":
        return spec
    if not isinstance(spec, Mapping):
        raise ValueError(f"expected none, or a selector such as {{kind: attention}}, found {spec!r}")
    try:
        selector_from(spec)
    except ConfigError as error:
        raise ValueError(str(error)) from None
    return spec


def _once(parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if parts is not None and (not parts or len(set(parts)) < len(parts)):
        raise ValueError(f"expected some parts, each once, found {list(parts)}")
    return parts


def _unset(value: object) -> bool:
    return value is None


ArmName = Annotated[str, AfterValidator(_known_arm), Field(json_schema_extra={"enum": list(ARM_NAMES)})]
Rows = Annotated[
    dict[str, Any] | Literal["none"],
    BeforeValidator(_known_rows),
    Field(json_schema_extra={"properties": {"kind": {"enum": list(SELECTORS)}}, "required": ["kind"]}),
]
Share = Annotated[float, Field(gt=0, lt=1)]


class MapsSpec(Frozen):
    """Which maps an arm's fill uses, see ``RidgeOptions``."""

    towards: Towards = "zero"
    rank: Count | None = None
    lam_for: LamFor | None = Field(default=None, exclude_if=_unset)
    tokens: Count | None = Field(default=None, exclude_if=_unset)

    @property
    def options(self) -> RidgeOptions:
        """The same as the library takes it."""
        return RidgeOptions(self.towards, self.rank, self.lam_for or "split", self.tokens)


class ArmSpec(Frozen):
    """The arm ``like`` under another name, with the parameters that are given; they are those of ``Arm``.

    match: name of an arm whose multiply-accumulates this one is given.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$")]
    like: ArmName
    fill: Fill | None = Field(default=None, exclude_if=_unset)
    split: Count | None = Field(default=None, exclude_if=_unset)
    tail: Count | None = Field(default=None, exclude_if=_unset)
    rows: Rows | None = Field(default=None, exclude_if=_unset)
    longer: Share | None = Field(default=None, exclude_if=_unset)
    match: ArmName | None = Field(default=None, exclude_if=_unset)
    split_layer: SplitLayer | None = Field(default=None, exclude_if=_unset)
    maps: MapsSpec | None = Field(default=None, exclude_if=_unset)
    rescale: Annotated[tuple[Scaled, ...] | None, AfterValidator(_once)] = Field(default=None, exclude_if=_unset)
    rescale_rows: Count | None = Field(default=None, exclude_if=_unset)
    state_correction: bool | None = Field(default=None, exclude_if=_unset)
    splice: Annotated[tuple[Part, ...] | None, AfterValidator(_once)] = Field(default=None, exclude_if=_unset)
    order: Order | None = Field(default=None, exclude_if=_unset)

    @model_validator(mode="after")
    def _own_name(self) -> Self:
        if self.name in ARM_NAMES:
            raise ValueError(f"arm {self.name!r} is in the table of arms already; give yours another name")
        if self.like == "exact":
            raise ValueError("like: exact has no parameters; take an arm that fills or writes nothing")
        split = self.split or 1
        try:
            # Of a depth whose two thirds are the split, so that pop_native is at one split with the others.
            arm = arm_from(self, ArmSettings(layers=3 * split // 2, split=split, tail=1))
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if self.rescale_rows is not None and not arm.rescale:
            raise ValueError("rescale_rows says how a rescale is measured, and nothing is rescaled; give rescale too")
        if self.like == "pop_native" and self.split is None and arm.fill == "ridge":
            raise ValueError("maps are fitted at the experiment's splits and at given ones; give the split")
        return self


def _written(arm: object) -> str:
    return "name" if isinstance(arm, str) else "parameters"


ArmEntry = Annotated[
    Annotated[ArmName, Tag("name")] | Annotated[ArmSpec, Tag("parameters")],
    Discriminator(_written),
]
"""One arm of an experiment's list."""


def arm_from(spec: ArmSpec, settings: ArmSettings) -> Arm:
    """The arm of a specification with an experiment's settings. Raises ``ConfigError`` for what no arm can have."""
    settings = replace(settings, split=spec.split or settings.split, tail=spec.tail or settings.tail)
    table = arm_table(settings)
    given: dict[str, Any] = {
        name: value
        for name in ("fill", "split", "tail", "longer", "split_layer", "rescale", "rescale_rows", "splice", "order")
        if (value := getattr(spec, name)) is not None
    }
    if spec.state_correction is not None:
        given["state_correction"] = spec.state_correction
    if spec.rows is not None:
        given["rows"] = selector_from(spec.rows) if isinstance(spec.rows, Mapping) else None
    if spec.match is not None:
        given["matched"] = table[spec.match]
    if spec.maps is not None:
        given["maps"] = spec.maps.options
    return replace(table[spec.like], name=spec.name, **given)
