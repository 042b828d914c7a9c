"""YAML 1.2 read strictly, keeping the line of every value for error messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import AliasEvent, CollectionEndEvent, CollectionStartEvent
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from ledger.errors import ClaimError

_LIMIT = 1 << 20
_DEPTH = 50
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

    Raises ClaimError, naming file, line and key, for duplicate keys, aliases, numbers with a fraction,
    dates, other tags, other documents, and files that are not UTF-8.
    """
    text = _text(path, name)
    loader = YAML(typ="safe", pure=True)
    try:
        _refuse_aliases_and_depth(text, name)
        node = YAML(typ="safe", pure=True).compose(text)
        data = loader.load(text)
    except DuplicateKeyError as failure:
        line = failure.problem_mark.line + 1 if failure.problem_mark else 1
        problem = str(failure.problem).split(" with value")[0]
        raise ClaimError(f"{name}:{line}: {problem}, expected every key once") from None
    except MarkedYAMLError as failure:
        mark = failure.problem_mark or failure.context_mark
        line = mark.line + 1 if mark else 1
        raise ClaimError(f"{name}:{line}: this is not valid YAML ({failure.problem})") from None
    except (YAMLError, ValueError, RecursionError) as failure:
        raise ClaimError(f"{name}:1: this is not valid YAML ({str(failure).splitlines()[0]})") from None
    lines: dict[Place, int] = {}
    if node is not None:
        _mark(node, (), lines)
    source = Source(name, data, lines)
    _refuse_unquoted(source, data, ())
    return source


def _refuse_aliases_and_depth(text: str, name: str) -> None:
    """Stop at the first alias or absurd nesting, before anything is built from the text."""
    depth = 0
    for event in YAML(typ="safe", pure=True).parse(text):
        line = event.start_mark.line + 1
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if isinstance(event, AliasEvent):
            raise ClaimError(f"{name}:{line}: found an alias, expected every value written out")
        if depth > _DEPTH:
            raise ClaimError(f"{name}:{line}: found values nested {depth} deep, expected at most {_DEPTH}")


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


def _refuse_unquoted(source: Source, value: Any, place: Place) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ClaimError(f"{source.at(place)}: found the key {key!r}, expected text as a key")
            _refuse_unquoted(source, item, (*place, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_unquoted(source, item, (*place, index))
    elif isinstance(value, float):
        raise ClaimError(f'{source.at(place)}: found the number {value}, expected it in quotes, like "0.5"')
    elif value is not None and not isinstance(value, str | int):
        kind = type(value).__name__
        raise ClaimError(f"{source.at(place)}: found a {kind} ({value}), expected text: put it in quotes")
