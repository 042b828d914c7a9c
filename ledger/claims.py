"""Claims: the file a person writes before a run, checked key by key and turned into frozen values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from ledger.errors import ClaimError, FormatError
from ledger.files import safe_path
from ledger.rules import Prediction, conditions_of, rule_from
from ledger.yaml_source import Place, Source, read_yaml


@dataclass(frozen=True)
class Run:
    """One run of a claim and the config files it pins, relative to the project's root."""

    id: str
    configs: tuple[str, ...]


@dataclass(frozen=True)
class Claim:
    """A valid claim; ``data`` is the same as JSON-ready values, as stored in a registration.

    ``start_by`` is the last day (UTC, like 2027-01-31) on which a run may start, or None.
    """

    who: str
    title: str
    hypothesis: str
    experiment: str
    arms: tuple[str, ...]
    overrides: Mapping[str, tuple[str, ...]]
    runs: tuple[Run, ...]
    predictions: tuple[Prediction, ...]
    start_by: str | None
    data: Mapping[str, Any]

    @property
    def configs(self) -> tuple[str, ...]:
        """Every pinned config of every run, once each, sorted."""
        return tuple(sorted({path for run in self.runs for path in run.configs}))

    def run(self, run_id: str) -> Run | None:
        """The run with this id, or None."""
        return next((run for run in self.runs if run.id == run_id), None)


def load_claim(path: Path, name: str | None = None) -> Claim:
    """Read and check a claim file; ClaimError names file (as ``name``), line, key and expectation."""
    return _claim(read_yaml(path, name or str(path)))


def claim_from(data: Mapping[str, Any], name: str = "claim") -> Claim:
    """Check claim data that was stored in a registration."""
    return _claim(Source(name, data, {}))


@cache
def _validator() -> Draft202012Validator:
    text = package_files("ledger").joinpath("schemas/claim.schema.json").read_text(encoding="utf-8")
    schema = json.loads(text)
    return Draft202012Validator({**_written_out(schema, schema["$defs"], ()), "$defs": schema["$defs"]})


def _written_out(part: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    """A schema with each reference replaced by what it names, but for those that a definition makes to itself.

    Following references is most of what validating a claim costs.
    """
    if isinstance(part, list):
        return [_written_out(item, definitions, inside) for item in part]
    if not isinstance(part, dict):
        return part
    name = str(part.get("$ref", "")).removeprefix("#/$defs/")
    if name and name not in inside and set(part) == {"$ref"}:
        return _written_out(definitions[name], definitions, (*inside, name))
    return {key: _written_out(item, definitions, inside) for key, item in part.items()}


def _claim(source: Source) -> Claim:
    errors = sorted(_validator().iter_errors(source.data), key=lambda error: source.line(error.absolute_path))
    if errors:
        raise ClaimError(_explain(source, errors[0]))
    data = source.data
    for place, problem in _problems(data):
        raise ClaimError(f"{source.at(place)}: {problem}")
    predictions = tuple(
        Prediction(item["id"], item["says"], rule_from(item["rule"]), item["min_n"], item["missing"])
        for item in data["predictions"]
    )
    return Claim(
        who=data["who"],
        title=data["title"],
        hypothesis=data["hypothesis"],
        experiment=data["experiment"],
        arms=tuple(data["arms"]),
        overrides={key: tuple(values) for key, values in data.get("overrides", {}).items()},
        runs=tuple(Run(run["id"], tuple(run["configs"])) for run in data["runs"]),
        predictions=predictions,
        start_by=data.get("start_by"),
        data=data,
    )


def _explain(source: Source, error: ValidationError) -> str:
    """``file:line: key: found ..., expected ...`` for the first violated part of the schema."""
    place: Place = tuple(error.absolute_path)
    schema = error.schema if isinstance(error.schema, Mapping) else {}
    if error.validator == "additionalProperties":
        known = ", ".join(schema.get("properties", {}))
        extra = sorted(set(error.instance) - set(schema.get("properties", {})))[0]
        return f"{source.at((*place, extra))}: found an unknown key, expected only {known}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        wanted = ", ".join(error.validator_value)
        return f"{source.at(place)}: the key {missing!r} is missing, expected {wanted}"
    expected = schema.get("x-expected") or error.message
    if error.validator in ("minItems", "uniqueItems", "minLength"):
        expected = f"{expected} ({error.message})"
    return f"{source.at(place)}: found {_short(error.instance)}, expected {expected}"


def _short(value: Any) -> str:
    kind = {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value))
    text = json.dumps(value, ensure_ascii=False)
    return kind or (text if len(text) <= 60 else text[:57] + "...")


def _problems(data: Mapping[str, Any]) -> Iterator[tuple[Place, str]]:
    """What the schema cannot say: unique ids, known arms, safe paths, a real day."""
    try:
        date.fromisoformat(data.get("start_by", "2000-01-01"))
    except ValueError:
        yield ("start_by",), f"found {data['start_by']!r}, expected a day that exists"
    for key in ("runs", "predictions"):
        seen: set[str] = set()
        for index, item in enumerate(data[key]):
            if item["id"] in seen:
                yield (key, index, "id"), f"found the id {item['id']!r} twice, expected different ids"
            seen.add(item["id"])
    for index, run in enumerate(data["runs"]):
        for position, path in enumerate(run["configs"]):
            try:
                safe_path(path, "config")
            except FormatError as failure:
                yield ("runs", index, "configs", position), str(failure)
    for index, item in enumerate(data["predictions"]):
        for condition in conditions_of(rule_from(item["rule"])):
            for arm in (condition.arm, condition.baseline):
                if arm is not None and arm not in data["arms"]:
                    known = ", ".join(data["arms"])
                    yield ("predictions", index, "rule"), f"found the arm {arm!r}, expected one of {known}"
