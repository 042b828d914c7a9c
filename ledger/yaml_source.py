"""YAML 1.2 read strictly, keeping the line of every value for error messages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    ScalarEvent,
)
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from ledger.errors import ClaimError

_LIMIT = 1 << 20
_DEPTH = 50
_TAG = "tag:yaml.org,2002:"
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Source:
    """Parsed data and the 1-based line of each place in it."""

    name: str
    data: Any
    lines: Mapping[Place, int]

    def line(self, place: Iterable[str | int]) -> int:
        """Line of a place, or of the nearest place around it that has one."""
        around = tuple(place)
        while around not in self.lines and around:
            around = around[:-1]
        return self.lines.get(around, 1)

    def at(self, place: Sequence[str | int]) -> str:
        """``file:line: key.path`` of a place; without a line where the data came from no file."""
        line = f":{self.line(place)}" if self.lines else ""
        return f"{self.name}{line}: {spell(place)}"


def spell(place: Sequence[str | int]) -> str:
    """``("runs", 0, "id")`` as ``runs[0].id``; the whole document as ``the file``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place)
    return text.lstrip(".") or "the file"


def read_yaml(path: Path, name: str) -> Source:
    """Read one document of plain mappings, lists, text, integers, booleans and null.

    Raises ClaimError, naming file, line and key, for whatever could mean something other than it seems to:
    duplicate and merge keys, aliases, tags, directives, unquoted dates, numbers that are not plain whole
    ones, text that is not Unicode, other documents, and files that are not UTF-8.
    """
    text = _text(path, name)
    lines: dict[Place, int] = {}
    try:
        _refuse_indirections(text, name)
        node = YAML(typ="safe", pure=True).compose(text)
        if node is not None:
            _mark(node, (), lines)
            _refuse_unquoted(Source(name, None, lines), node, ())
        return Source(name, YAML(typ="safe", pure=True).load(text), lines)
    except DuplicateKeyError as failure:
        line = failure.problem_mark.line + 1 if failure.problem_mark else 1
        problem = str(failure.problem).split(" with value")[0]
        raise ClaimError(f"{name}:{line}: {problem}, expected every key once") from None
    except MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        line = mark.line + 1 if mark else 1
        raise ClaimError(f"{name}:{line}: this is not valid YAML ({failure.problem})") from None
    except (YAMLError, ValueError, RecursionError, AssertionError) as failure:
        raise ClaimError(f"{name}:1: this is not valid YAML ({str(failure).splitlines()[0]})") from None


def _refuse_indirections(text: str, name: str) -> None:
    """Stop at the first alias, tag, directive or absurd nesting, before anything is built from the text."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        problem = _indirection(event)
        if depth > _DEPTH:
            problem = f"found values nested {depth} deep, expected at most {_DEPTH}"
        if problem:
            raise ClaimError(f"{name}:{event.start_mark.line + 1}: {problem}")


def _indirection(event: Event) -> str:
    """What an event holds that changes the meaning of what is written; empty when nothing."""
    if isinstance(event, AliasEvent):
        return "found an alias, expected every value written out"
    if isinstance(event, DocumentStartEvent) and (event.tags or event.version not in (None, (1, 2))):
        return "found a YAML directive, expected none: a claim is plain YAML 1.2"
    if isinstance(event, ScalarEvent | CollectionStartEvent) and event.tag is not None:
        tag = str(event.tag).replace(_TAG, "!!")
        return f"this is not valid YAML for a claim (found the tag {tag}, expected plain values)"
    return ""


def _text(path: Path, name: str) -> str:
    try:
        data = path.read_bytes()
    except OSError as failure:
        raise ClaimError(f"{name}: the claim file cannot be read ({failure.strerror})") from None
    if len(data) > _LIMIT:
        raise ClaimError(f"{name}: found {len(data)} bytes, expected a claim of at most {_LIMIT}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as failure:
        line = data[: failure.start].count(b"\n") + 1
        raise ClaimError(f"{name}:{line}: found bytes that are not UTF-8, expected UTF-8 text") from None


def _mark(node: Node, place: Place, lines: dict[Place, int]) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, MappingNode):
        for key, value in node.value:
            lines[(*place, str(key.value))] = key.start_mark.line + 1
            _mark(value, (*place, str(key.value)), lines)
    elif isinstance(node, SequenceNode):
        for index, value in enumerate(node.value):
            _mark(value, (*place, index), lines)


def _refuse_unquoted(source: Source, node: Node, place: Place) -> None:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag != _TAG + "str":
                found = repr(key.value) if isinstance(key, ScalarNode) else "of several parts"
                line = key.start_mark.line + 1
                raise ClaimError(f"{source.name}:{line}: {spell(place)}: found the key {found}, expected text as a key")
            _refuse_unquoted(source, key, (*place, key.value))
            _refuse_unquoted(source, value, (*place, key.value))
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            _refuse_unquoted(source, item, (*place, index))
    elif problem := _misread(str(node.tag).removeprefix(_TAG), node.value):
        raise ClaimError(f"{source.at(place)}: {problem}")


def _misread(kind: str, written: str) -> str:
    """Why a scalar could be read as something other than what is written; empty when it cannot."""
    if kind in ("bool", "null"):
        return ""
    if kind == "str":
        half = re.search("[\ud800-\udfff]", written)
        return f"found half a character ({half[0]!a}), expected Unicode text" if half else ""
    if kind == "int":
        plain = re.fullmatch("-?(0|[1-9][0-9]*)", written)
        return "" if plain else f"found the number {written}, expected a plain whole number, or text in quotes"
    if kind == "float":
        return f'found the number {written}, expected it in quotes, like "0.5"'
    article = "the date " if kind == "timestamp" else ""
    return f"found {article}{written}, expected text: put it in quotes"
