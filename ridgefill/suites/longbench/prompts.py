"""From a v1 item to its prompt: a template (the user's official file or our wording), then the middle cut."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from types import MappingProxyType
from typing import Literal

from ridgefill.errors import TextError
from ridgefill.suites.longbench import wording
from ridgefill.suites.longbench.cutting import CutText, Decode, Encode, cut_apart
from ridgefill.suites.longbench.datasets import find_dataset
from ridgefill.suites.longbench.files import LongBenchItem
from ridgefill.suites.longbench.records import load, read_whole, record, text

Source = Literal["official", "longbench-style"]
_FIELDS = {"context", "input"}


@dataclass(frozen=True)
class Templates:
    """Template by dataset name. ``source`` labels the results; ``sha256`` is of the file, None without one."""

    source: Source
    by_dataset: Mapping[str, str]
    sha256: str | None


OWN = Templates("longbench-style", wording.V1, None)
"""Our own wording, for every dataset."""


def read_templates(path: Path, datasets: Iterable[str]) -> Templates:
    """The templates of ``datasets`` from the user's copy of the official ``dataset2prompt.json``.

    Raises TextError for a missing or malformed file, a dataset without template, or a template that does not
    hold ``{context}``, or holds anything in braces but ``{context}`` and ``{input}``.
    """
    path = Path(path)
    data = read_whole(path, "the official dataset2prompt.json")
    found = record(load(data, str(path)), str(path))
    chosen = {name: _template(found, name, path) for name in datasets}
    return Templates("official", MappingProxyType(chosen), hashlib.sha256(data).hexdigest())


def _template(found: Mapping[str, object], name: str, path: Path) -> str:
    template = text(found, name, str(path))
    try:
        parts = [part[1:] for part in Formatter().parse(template) if part[1] is not None]
    except ValueError as error:
        raise TextError(f"{path}: the template of {name} has unbalanced braces ({error})") from None
    fields = [field for field, _, _ in parts]
    if "context" not in fields or set(fields) - _FIELDS or any(spec or conversion for _, spec, conversion in parts):
        raise TextError(
            f"{path}: the template of {name} has the fields {fields}; expected plain {{context}}, and besides it "
            "at most {input}"
        )
    return template


@dataclass(frozen=True)
class V1Prompt:
    """The user turn of an item after the cut; with ``chat`` it goes into the model's chat template."""

    prompt: CutText
    chat: bool
    new_tokens: int


def prompt_for(item: LongBenchItem, templates: Templates, budget: int, *, encode: Encode, decode: Decode) -> V1Prompt:
    """The item in its template, cut to ``budget`` tokens (before any chat template).

    Raises TextError when ``templates`` lacks the dataset and ConfigError for a budget below 2.
    """
    dataset = find_dataset(item.dataset)
    if item.dataset not in templates.by_dataset:
        raise TextError(f"no template for {item.dataset}; the templates were read for {sorted(templates.by_dataset)}")
    whole = templates.by_dataset[item.dataset].format(context=item.context, input=item.input)
    return V1Prompt(cut_apart(whole, budget, encode, decode), dataset.chat, dataset.new_tokens)
