"""Selectors by the names that an experiment's file gives them: ``{kind: protected, share: 0.25}``.

A new rule for picking rows is a file beside this one and a line in ``SELECTORS``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import Field, TypeAdapter, ValidationError

from ridgefill.errors import ConfigError
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.context import Selector
from ridgefill.selectors.controls import LastRows, RandomRows
from ridgefill.selectors.digits import DigitTokens
from ridgefill.selectors.lexical import LexicalNet
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.protected import ProtectedTokens
from ridgefill.selectors.question import QuestionBlindRows
from ridgefill.selectors.special import SpecialTokens

SELECTORS: Mapping[str, type[Selector]] = MappingProxyType(
    {
        "attention": AttentionRows,
        "question_blind": QuestionBlindRows,
        "random": RandomRows,
        "last": LastRows,
        "digits": DigitTokens,
        "special": SpecialTokens,
        "protected": ProtectedTokens,
        "lexical": LexicalNet,
        "probe": ProbedRows,
    }
)
"""By the word that follows ``kind:``."""


def selector_from(spec: Mapping[str, Any]) -> Selector:
    """The selector that a mapping describes. Raises ``ConfigError`` naming the key that cannot be used."""
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in SELECTORS:
        raise ConfigError(f"rows of kind {kind!r} are not known; expected one of {', '.join(SELECTORS)}")
    made = _built(SELECTORS[kind], {key: value for key, value in spec.items() if key != "kind"}, kind)
    if not isinstance(made, Selector):
        raise ConfigError(f"rows of kind {kind} pick nothing")
    return made


def _built(made: Any, given: Mapping[str, Any], where: str) -> Any:
    """The dataclass ``made`` with the given fields, each of its declared type; the rest as they are by default."""
    hints = get_type_hints(made)
    names = [field.name for field in fields(made)]
    if unknown := sorted(set(given) - set(names), key=str):
        raise ConfigError(f"rows of kind {where} have no setting {unknown[0]!r}; expected {', '.join(names) or 'none'}")
    return made(**{name: _value(hints[name], value, f"{where}.{name}") for name, value in given.items()})


def _value(hint: Any, value: Any, where: str) -> Any:
    kinds = get_args(hint) or (hint,)
    nested = next((kind for kind in (Selector, ProbeBudget, LexicalNet) if kind in kinds), None)
    if nested is None:
        return _number(hint, value, where)
    if value is None and type(None) in kinds:
        return None
    if not isinstance(value, Mapping):
        allowed = "a mapping of settings" + (" or null" if type(None) in kinds else "")
        raise ConfigError(f"rows: {where}: expected {allowed}, found {value!r}")
    return selector_from(value) if nested is Selector else _built(nested, value, where)


def _number(hint: Any, value: Any, where: str) -> Any:
    """The value of a switch, a count from 1, or a number from 0; of a share, at most 1."""
    limits = {bool: {}, int: {"ge": 1}, float: {"ge": 0, "allow_inf_nan": False}}[hint]
    if where.endswith("share"):
        limits = {**limits, "le": 1}
    try:
        return TypeAdapter(Annotated[hint, Field(strict=True, **limits)]).validate_python(value)
    except ValidationError as error:
        raise ConfigError(f"rows: {where}: {error.errors()[0]['msg']}, found {value!r}") from None
