"""What the Snakefile needs to know before any job runs: paths, parameters, and refusals in one sentence."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.errors import LedgerError
from ridgefill.config import cost_geometry, known_experiments, load_experiment, load_model, with_overrides
from ridgefill.errors import RidgeFillError
from ridgefill.models.source import FAMILIES, RECORD, local_folder
from ridgefill.settings import Experiment, HubSource, ModelConfig
from ridgefill.suites import words
from ridgefill.suites.manifest import load_manifest
from ridgefill.texts import load_sources
from workflow.gate import allowed, entry_path
from workflow.sources import source_hash

SETTINGS = ("ledger_branch", "model_path", "models", "texts")


class Refused(Exception):
    """Something that must stop the workflow while it is being planned; its message is one sentence."""


@dataclass(frozen=True)
class Plan:
    """The workflow's configuration, checked: what the user set, and what follows from it for each experiment."""

    root: Path
    config: Mapping[str, Any]

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

    def experiment(self, name: str) -> Experiment:
        """The experiment with the overrides. Raises ``Refused``; an unknown name lists the known ones."""
        return self._ask(lambda: with_overrides(load_experiment(name, self.root), self.overrides))

    def model(self, name: str) -> ModelConfig:
        """The experiment's model."""
        experiment = self.experiment(name)
        return self._ask(lambda: load_model(experiment.model, self.root))

    def model_folder(self, name: str) -> str:
        """The folder its jobs load the model from."""
        model = self.model(name)
        if not isinstance(model.source, HubSource):
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

    def model_file(self, name: str) -> str:
        """A file that is there once the model is: made by a rule for a wheel, found for a hub model."""
        built = not isinstance(self.model(name).source, HubSource)
        return f"{self.model_folder(name)}/{RECORD if built else 'config.json'}"

    def registration(self, name: str) -> str:
        """The registration entry that allows the experiment to run; the model is asked for first."""
        self.model_file(name)
        claim = self.experiment(name).claim
        return entry_path(self._ask(lambda: allowed(self.root, self.branch, claim, self.overrides)))

    def text_files(self, name: str) -> list[str]:
        """Markers of the unpacked text sources that the experiment reads."""
        experiment = self.experiment(name)
        wanted = {*experiment.capture.sources, experiment.suites.ruler.haystack, words.SOURCE}
        manifest = self.root / experiment.suites.documents.manifest
        wanted |= {document.source for document in self._ask(lambda: load_manifest(manifest))}
        return [self.text_marker(source) for source in sorted(wanted)]

    def text_marker(self, source: str) -> str:
        """The file whose presence says that a text source is unpacked."""
        return f"{self.config['texts']}/{source}.fetched"

    def code(self, job: str) -> str:
        """Hash of what a job really runs: a changed report does not run a capture again."""
        return source_hash(f"workflow.jobs.{job}", self.root)

    def settings(self, name: str, *keys: str) -> str:
        """The named parts of the experiment as one line, so that only jobs that read them run again."""
        data = self.experiment(name).model_dump(mode="json")
        return json.dumps({key: data[key] for key in keys}, sort_keys=True)

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


def text_sources(root: Path) -> tuple[str, ...]:
    """Names of all pinned text sources."""
    return tuple(load_sources(root / "data/texts/sources.json"))
