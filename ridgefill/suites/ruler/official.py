"""Samples of files that RULER's pinned generator wrote (NVIDIA/RULER c3f5e3b); results label them ``official``.

One JSON object a line: ``input`` (the user turn), ``answer_prefix``, ``outputs`` (the references) and
``length``. ``index`` is not used (the needle tasks overwrite it with a character position) and nor is
``token_position_answer``, which holds the first answer only and for one tokenizer: samples are numbered by
line, and every needle is found in the text (:mod:`ridgefill.suites.ruler.finding`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgefill.errors import TextError
from ridgefill.suites.needles import RulerSample
from ridgefill.suites.ruler.finding import OfficialText, find_needles
from ridgefill.suites.ruler.tasks import Task, find_task

COMMIT = "c3f5e3b"
_LAYOUTS = ("{length}/data/{task}/validation.jsonl", "{length}/{task}/validation.jsonl", "{length}/{task}.jsonl")


@dataclass(frozen=True)
class OfficialFile:
    """The samples of one file and the SHA-256 of its bytes."""

    path: Path
    sha256: str
    samples: tuple[RulerSample, ...]


def official_path(folder: Path, task: str, length: int) -> Path:
    """The file of one task and length below the user's folder. TextError says where it was looked for."""
    places = [folder / layout.format(length=length, task=task) for layout in _LAYOUTS]
    for place in places:
        if place.is_file():
            return place
    raise TextError(
        f"no RULER file of {task} at {length} tokens, looked for at {', '.join(map(str, places))}; "
        f"make it with NVIDIA/RULER at commit {COMMIT}"
    )


def load_official(
    path: Path,
    task: str,
    length: int,
    count: int | None = None,
    *,
    new_tokens: int | None = None,
    expected: str | None = None,
) -> OfficialFile:
    """The first ``count`` samples of ``task`` in a file (all without ``count``), at the nominal ``length``.

    ``new_tokens`` replaces the task's own budget for the answer; ``expected`` is the SHA-256 that the file must
    have. Raises TextError, with file and line, for a line of another shape, and for a file with fewer samples.
    """
    found = find_task(task)
    data = _bytes(path)
    sha256 = hashlib.sha256(data).hexdigest()
    if expected is not None and sha256 != expected:
        raise TextError(f"{path} has SHA-256 {sha256}, expected {expected}; restore the file or name its new hash")
    lines = data.removesuffix(b"\n").split(b"\n")
    wanted = lines if count is None else lines[:count]
    samples = tuple(
        _sample(_record(line, f"{path}:{place}"), found, length, place - 1, f"{path}:{place}", new_tokens)
        for place, line in enumerate(wanted, start=1)
    )
    if count is not None and len(samples) < count:
        raise TextError(f"{path} holds {len(samples)} samples and {count} were asked for; make more or ask for fewer")
    return OfficialFile(path, sha256, samples)


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TextError(f"no RULER file at {path}; make it with NVIDIA/RULER at commit {COMMIT}") from None
    except (OSError, ValueError) as error:
        raise TextError(
            f"cannot read {path} ({getattr(error, 'strerror', None) or error}); expected a file of JSON lines"
        ) from None
    if not data.strip():
        raise TextError(f"{path} is empty, expected one JSON object a line")
    return data


def _record(line: bytes, where: str) -> Mapping[str, Any]:
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise TextError(f"{where} is not a line of JSON ({error}); make the file again") from None
    if not isinstance(record, dict):
        raise TextError(f"{where} holds a {type(record).__name__}, expected a JSON object")
    return record


def _text(record: Mapping[str, Any], name: str, where: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not value.strip():
        raise TextError(f"{where} has {name} {value!r:.60}, expected a text; make the file with RULER at {COMMIT}")
    return value


def _references(record: Mapping[str, Any], where: str) -> tuple[str, ...]:
    values = record.get("outputs")
    if not isinstance(values, list) or not values or not all(isinstance(one, str) and one.strip() for one in values):
        raise TextError(f"{where} has outputs {values!r:.60}, expected a list of texts; make the file again")
    return tuple(values)


def _sample(
    record: Mapping[str, Any], task: Task, length: int, index: int, where: str, new_tokens: int | None
) -> RulerSample:
    prompt = _text(record, "input", where)
    prefix = _text(record, "answer_prefix", where)
    references = _references(record, where)
    # The generator cuts the prefix off the turn, so what is left ends in the question, on a line of its own.
    end = len(prompt.rstrip())
    start = prompt.rfind("\n", 0, end) + 1
    return RulerSample(
        task=task.name,
        length=length,
        index=index,
        question_prompt=prompt,
        answer_prefix=prefix,
        references=references,
        needles=find_needles(OfficialText(task.name, prompt[:start], prompt[start:end], references, where)),
        new_tokens=task.new_tokens if new_tokens is None else new_tokens,
        question=(start, end),
        metric=task.metric,
    )
