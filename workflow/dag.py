"""What the Snakefile needs to know before any job runs: paths, parameters, and refusals in one sentence."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from ledger.errors import LedgerError
from ridgefill.arms import Arm
from ridgefill.config import (
    cost_geometry,
    experiment_arms,
    known_experiments,
    load_experiment,
    load_model,
    with_overrides,
)
from ridgefill.errors import RidgeFillError
from ridgefill.fitted_names import (
    FREQUENCIES,
    fit_lengths,
    maps_name,
    needed_corrections,
    needed_maps,
    needs_frequencies,
)
from ridgefill.models.source import FAMILIES, RECORD, committed_files, local_folder
from ridgefill.results import MORE_FILES
from ridgefill.served.server import ENGINE, require_engine
from ridgefill.settings import Experiment, HubSource, ModelConfig
from ridgefill.suites import words
from ridgefill.suites.manifest import load_manifest, text_set
from ridgefill.suites.needed_files import needed_files, require_files
from ridgefill.texts import Source, load_sources
from workflow.gate import MOST_SHARDS, allowed, entry_path, more_suites, needed_runs
from workflow.sources import source_hash

Answer = TypeVar("Answer")
SETTINGS = ("kva", "ledger_branch", "model_path", "models", "shards", "texts")


class Refused(Exception):
    """Something that must stop the workflow while it is being planned; its message is one sentence."""


def _once(question: Callable[..., Answer]) -> Callable[..., Answer]:
    """Ask once for each plan and words. A plan may have thousands of jobs, all of which ask the same; what changes on
    the disk meanwhile, each job finds out for itself."""

    @wraps(question)
    def answer(plan: Plan, *words: str) -> Answer:
        asked = (question.__name__, *words)
        if asked not in plan.answers:
            plan.answers[asked] = question(plan, *words)
        found: Answer = plan.answers[asked]
        return found

    return answer


@dataclass(frozen=True)
class Plan:
    """The workflow's configuration, checked: what the user set, and what follows from it for each experiment.

    answers: to questions that were asked before (``_once``).
    """

    root: Path
    config: Mapping[str, Any]
    answers: dict[tuple[str, ...], Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def branch(self) -> str:
        """Ledger branch that runs are recorded in."""
        return str(self.config["ledger_branch"])

    @property
    def overrides(self) -> dict[str, str]:
        """Experiment settings given with ``--config``, such as ``dtype=bfloat16``."""
        return {key: str(value) for key, value in sorted(self.config.items()) if key not in SETTINGS}

    def admit(self, target: str) -> None:
        """Refuse a target ``results/NAME`` (or a file below it) that is unknown, unregistered or lacks its model."""
        parts = Path(target).parts
        if len(parts) > 1 and parts[0] == "results":
            self.registration(parts[1])
            self.shard_files(parts[1], "ruler")

    @_once
    def experiment(self, name: str) -> Experiment:
        """The experiment with the overrides. Raises ``Refused``; an unknown name lists the known ones."""
        return self._ask(lambda: with_overrides(load_experiment(name, self.root), self.overrides))

    @_once
    def model(self, name: str) -> ModelConfig:
        """The experiment's model."""
        experiment = self.experiment(name)
        return self._ask(lambda: load_model(experiment.model, self.root))

    def gpus(self, name: str) -> int:
        """GPUs of a job that runs an experiment's model: one, or as many as its layers are spread over."""
        loading = self.model(name).loading
        return (loading.gpus if loading else None) or 1

    @_once
    def model_folder(self, name: str) -> str:
        """The folder its jobs load the model from."""
        model = self.model(name)
        if not isinstance(model.source, HubSource):
            self.committed_files(model.name)
            return f"{self.config['models']}/{model.name}"
        folder = self._ask(lambda: local_folder(model, self.config["model_path"] or None))
        if model.family not in FAMILIES:
            raise Refused(
                f"model {model.name} is of family {model.family}, which this version has no adapter for (it has: "
                f"{', '.join(FAMILIES)}); see docs/add-a-model.md"
            )
        # Arms are compared at equal work, so a model whose work cannot be counted is refused before any of it is done.
        self._ask(lambda: cost_geometry(model))
        return os.fspath(folder)

    def committed_files(self, model: str) -> list[str]:
        """What a model is copied from, when this repository holds it."""
        return [os.fspath(path) for path in self._ask(lambda: committed_files(load_model(model, self.root), self.root))]

    def model_file(self, name: str) -> str:
        """A file that is there once the model is: made by a rule, or found for a hub model."""
        built = not isinstance(self.model(name).source, HubSource)
        return f"{self.model_folder(name)}/{RECORD if built else 'config.json'}"

    @_once
    def registration(self, name: str) -> str:
        """The registration entry that allows the experiment to run; model, engine and user files come first."""
        self.model_file(name)
        experiment, model = self.experiment(name), self.model(name)
        self._ask(lambda: require_files(experiment.suites, self.root))
        if experiment.suites.served is not None:
            self._ask(lambda: require_engine(self.root))
        runs = self._ask(lambda: needed_runs(experiment, model))
        return entry_path(self._ask(lambda: allowed(self.root, self.branch, experiment.claim, self.overrides, runs)))

    @_once
    def arms(self, name: str) -> list[Arm]:
        """All arms of the experiment."""
        return self._ask(lambda: experiment_arms(self.experiment(name), self.model(name).geometry.layers))

    @_once
    def fitted_files(self, name: str) -> list[str]:
        """What its evaluations read of what was fitted or counted, beside the maps."""
        arms, folder = self.arms(name), f"results/{name}"
        corrections = [f"{folder}/corrections/SHA256SUMS"] if needed_corrections(arms) else []
        counted = [f"{folder}/{FREQUENCIES}"] if needs_frequencies(arms) else []
        return corrections + counted + ([self._heads()] if any(arm.fill == "kva" for arm in arms) else [])

    def _heads(self) -> str:
        path = str(self.config["kva"])
        if not path or not Path(path).is_file():
            found = f"{path} is no file" if path else "none was given"
            raise Refused(f"a kva arm writes from trained heads and {found}; give it with --config kva=FILE")
        return path

    def suite_files(self, name: str) -> list[str]:
        """What the suites that it has beside retrieval and documents leave."""
        suites = more_suites(self.experiment(name))
        return [f"results/{name}/{file}" for file in MORE_FILES if file.split("/", maxsplit=1)[0] in suites]

    def engine_file(self) -> str:
        """The engine's interpreter, for suites that measure its server."""
        return os.fspath(ENGINE / "bin" / "python")

    def shard_files(self, name: str, suite: str) -> list[str]:
        """What the jobs leave that a suite is divided into: word of their attempt, then of each; none for one job."""
        text = str(self.config["shards"])
        if not (text.isdecimal() and 1 <= int(text) <= MOST_SHARDS):
            raise Refused(f"found shards={text}, expected how many jobs make a suite: 1 to {MOST_SHARDS}")
        count, folder = int(text), f"results/{name}/{suite}/shards"
        made = [f"{folder}/{number}-of-{count}.json" for number in range(1, count + 1)]
        return [f"{folder}/attempt.json", *made] if count > 1 else []

    @_once
    def user_files(self, name: str, suite: str) -> list[str]:
        """The user's own files that a suite reads."""
        files = self._ask(lambda: needed_files(self.experiment(name).suites))
        return [os.fspath(one.path) for one in files if one.suite == suite]

    def suite_texts(self, name: str, suite: str) -> list[str]:
        """What the rule of a suite reads of texts, for the shards that work for it."""
        if suite in ("agreement", "turns"):
            return self.text_files(name)
        return self.user_files(name, suite) if suite.startswith("longbench") else []

    @_once
    def map_names(self, name: str) -> str:
        """All maps that its arms need, so that an arm with maps of its own has them fitted."""
        return " ".join(maps_name(*one) for one in needed_maps(self.arms(name), self.experiment(name).splits))

    def fit_lengths(self, name: str) -> str:
        """Numbers of tokens, fewer than all, that some arm's maps are fitted on."""
        return " ".join(map(str, fit_lengths(self.arms(name), self.experiment(name).splits)))

    def correction_names(self, name: str) -> str:
        """All state corrections that its arms need."""
        return " ".join(needed_corrections(self.arms(name)))

    def kva_flag(self) -> str:
        """The file of trained heads as a job argument, when one was given."""
        return f"--kva {shlex.quote(str(self.config['kva']))}" if self.config["kva"] else ""

    @_once
    def text_files(self, name: str) -> list[str]:
        """Markers of the unpacked text sources that the experiment reads."""
        experiment = self.experiment(name)
        wanted = set(experiment.capture.sources)
        if experiment.suites.ruler.haystack is not None:
            wanted |= {experiment.suites.ruler.haystack, words.SOURCE}
        files = text_set(self.root / experiment.suites.documents.manifest)
        for manifest in (files.documents, files.calibration):
            wanted |= {document.source for document in self._ask(lambda manifest=manifest: load_manifest(manifest))}
        return [self.text_marker(source) for source in sorted(wanted)]

    def text_marker(self, source: str) -> str:
        """The file whose presence says that a text source is unpacked."""
        return f"{self.config['texts']}/{source}.fetched"

    @_once
    def sources_file(self, source: str) -> str:
        """The file that pins a text source: that of some experiment's set of texts, all of which agree on it."""
        found: dict[str, Source] = {}
        for manifest in sorted({text_set(manifest).sources for manifest in self._manifests()}):
            path = self.root / manifest
            known = self._ask(lambda path=path: load_sources(path)) if path.is_file() else {}
            if source in known:
                found[os.path.relpath(path, self.root)] = replace(known[source], domain=None)
        if not found:
            raise Refused(f"text source {source} is pinned by no experiment's sources.json; see docs/texts.md")
        if len(set(found.values())) > 1:
            raise Refused(f"text source {source} is pinned differently in {', '.join(sorted(found))}; make them agree")
        return min(found)

    def _manifests(self) -> Iterator[Path]:
        """Manifests of documents of all experiments whose files can be read; broken ones are not asked for here."""
        for name in experiments(self.root):
            with suppress(RidgeFillError):
                yield Path(load_experiment(name, self.root).suites.documents.manifest)

    @_once
    def code(self, job: str) -> str:
        """Hash of what a job really runs: a changed report does not run a capture again."""
        return source_hash(f"workflow.jobs.{job}", self.root)

    @_once
    def plugin_code(self) -> str:
        """Hash of what runs inside the engine, which no job imports."""
        return " ".join(source_hash(f"ridgefill.vllm_plugin.{part}", self.root) for part in ("runner", "scheduler"))

    @_once
    def settings(self, name: str, *keys: str) -> str:
        """The named parts of the experiment as one line, so that only jobs that read them run again; optional ones
        are left out where the experiment does not have them."""
        data = self.experiment(name).model_dump(mode="json")
        return json.dumps({key: data[key] for key in keys if key in data}, sort_keys=True)

    def override_flags(self) -> str:
        """The overrides as job arguments."""
        return " ".join(f"--override {key}={value}" for key, value in self.overrides.items())

    def _ask(self, question: Any) -> Any:
        try:
            return question()
        except (RidgeFillError, LedgerError) as error:
            raise Refused(str(error)) from error


def experiments(root: Path) -> tuple[str, ...]:
    """Names of all configured experiments."""
    return known_experiments(root)
