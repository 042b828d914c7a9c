"""What a server is told by ``RIDGEFILL_VLLM``: a folder of maps, or JSON with the folder and more."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from ridgefill.errors import ConfigError

VARIABLE = "RIDGEFILL_VLLM"
SWITCH = "ridgefill"
"""Key of a request's ``extra_args`` (``vllm_xargs`` in a body) that turns its filling on or off."""
ENGINE = "0.32"
"""The minor version of vLLM whose parts this plugin subclasses."""
SplitLayer = Literal["exact", "mapped"]
Rule = Literal["digits", "special"]
MIN_FILLED = 512
"""Fewer rows before the tail are not worth filling: of the bulks measured on the server (``smollm2_vllm``) the smallest
with which every filled request was sooner than the exact one beside it."""
_ON, _OFF = ("1", "true", "on", "yes"), ("0", "false", "off", "no")


@dataclass(frozen=True)
class Settings:
    """Fixed when the server starts.

    maps: folder (or hub repository) of maps. tail: last tokens of a prompt that run every layer. min_filled: a prompt
    with fewer rows before its tail runs exactly. default: whether a request that says nothing is filled. split_layer:
    whether the split layer's filled rows come from the true state or from its map. split: what the maps' split must
    be, None for whatever it is. rows: rules by which rows before the tail run every layer too.
    """

    maps: str
    tail: int = 4096
    min_filled: int = MIN_FILLED
    default: bool = True
    split_layer: SplitLayer = "exact"
    split: int | None = None
    rows: tuple[Rule, ...] = ()

    def boundary(self, prompt_tokens: int, filled: bool) -> int:
        """First position of a prompt's tail; 0 when every row of it runs every layer."""
        bulk = prompt_tokens - self.tail
        return bulk if filled and bulk >= self.min_filled else 0


def settings_from_environment(environment: Mapping[str, str] | None = None) -> Settings | None:
    """The settings in ``RIDGEFILL_VLLM``, or None when it is not set or empty. Raises ``ConfigError``."""
    text = (os.environ if environment is None else environment).get(VARIABLE, "").strip()
    return parse_settings(text) if text else None


def settings_of_this_process() -> Settings:
    """The settings that the engine was started with. Raises ``ConfigError`` in a process that they did not reach."""
    settings = settings_from_environment()
    if settings is None:
        raise ConfigError(f"{VARIABLE} was set when the engine started and is not in this process; set it for all")
    return settings


def parse_settings(text: str) -> Settings:
    """Settings from a path, or from a JSON object with ``maps`` and other fields of ``Settings``.

    Raises ``ConfigError`` naming the field that cannot be used.
    """
    if not text.startswith("{"):
        return Settings(maps=text)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(
            f"{VARIABLE} begins as JSON but is not ({error}); give a folder of maps, or an object such as "
            '{"maps": "/path/to/maps", "tail": 1024}'
        ) from error
    known = [field.name for field in fields(Settings)]
    if odd := sorted(set(found) - set(known)):
        raise ConfigError(f"{VARIABLE} holds {odd[0]!r}; expected only {', '.join(known)}")
    _check(found)
    return Settings(**found | {"rows": tuple(found.get("rows", ()))})


def _check(found: Mapping[str, Any]) -> None:
    maps = found.get("maps")
    if not isinstance(maps, str) or not maps.strip():
        raise ConfigError(f"{VARIABLE} has maps {maps!r}; expected the path of a folder of maps")
    for name, least in (("tail", 1), ("min_filled", 1), ("split", 1)):
        value = found.get(name, least)
        if name == "split" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{VARIABLE} has {name} {value!r}; expected a whole number, at least {least}")
    if not isinstance(found.get("default", True), bool):
        raise ConfigError(f"{VARIABLE} has default {found['default']!r}; expected true or false")
    if found.get("split_layer", "exact") not in get_args(SplitLayer):
        raise ConfigError(f"{VARIABLE} has split_layer {found['split_layer']!r}; expected exact or mapped")
    rules, rows = get_args(Rule), found.get("rows", [])
    if not isinstance(rows, list) or any(rule not in rules for rule in rows):
        raise ConfigError(
            f"{VARIABLE} has rows {rows!r}; expected a list of {' and '.join(rules)}, the rules that need no layer"
        )


def wanted(settings: Settings, extra_args: Mapping[str, Any] | None) -> bool | None:
    """Whether a request asks to be filled: its own ``ridgefill`` switch, else the server's default.

    True, False, 1, 0 and the words of them switch; None is the answer for any other value.
    """
    if not extra_args or SWITCH not in extra_args:
        return settings.default
    word = str(extra_args[SWITCH]).strip().lower()
    return True if word in _ON else False if word in _OFF else None


def where(settings: Settings) -> Path:
    """The local folder of the maps, fetched when it is a hub repository. A file, or nothing, is a ``MapError``."""
    from ridgefill.errors import MapError
    from ridgefill.mapfiles.hub import locate

    path = locate(settings.maps)
    if not path.is_dir():
        raise MapError(
            f"{path} is a file; a server needs a folder of maps with ridgefill.json, as `ridgefill fit` writes"
        )
    return path
