"""What every job shares: its command line, the experiment it works on, and its ledger attempt."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ledger.errors import LedgerError
from ledger.launch import Attempt, Registration, launch
from ledger.seeds import run_seed
from ridgefill.config import load_experiment, load_model, with_overrides, with_seeds
from ridgefill.errors import RidgeFillError
from ridgefill.evaluation.model_time import noting_model_time
from ridgefill.settings import Experiment, ModelConfig
from workflow.gate import allowed, entry_path, needed_runs


@dataclass(frozen=True)
class Job:
    """One job of one experiment. out: its results folder. model_folder, texts: where files were prepared. kva: trained
    heads, for arms that write from them."""

    root: Path
    name: str
    branch: str
    overrides: dict[str, str]
    out: Path
    model_folder: Path
    texts: Path
    threads: int
    kva: Path | None = None

    @cached_property
    def written(self) -> Experiment:
        """The experiment as its file and the command line's overrides say."""
        return with_overrides(load_experiment(self.name, self.root), self.overrides)

    @cached_property
    def experiment(self) -> Experiment:
        """The same with its seeds, where they are to be derived from the registration."""
        return with_seeds(self.written, lambda label: run_seed(self.registration.leaf, label))

    @cached_property
    def model(self) -> ModelConfig:
        """The experiment's model."""
        return load_model(self.written.model, self.root)

    @property
    def registration(self) -> Registration:
        """The registration that allows this job; raises the ledger's refusals."""
        runs = needed_runs(self.written, self.model)
        return allowed(self.root, self.branch, self.written.claim, self.overrides, runs)

    def config_sha256(self) -> str:
        """SHA-256 of the resolved experiment and model configuration."""
        resolved = {"experiment": self.experiment.model_dump(mode="json"), "model": self.model.model_dump(mode="json")}
        return hashlib.sha256(json.dumps(resolved, sort_keys=True).encode()).hexdigest()

    @contextmanager
    def attempt(self, run: str, inputs: Sequence[Path] = ()) -> Iterator[Attempt]:
        """A registered, leased attempt of ``run``: start before the block, result after it, also on failure."""
        with launch(
            self.root, self.branch, self.registration, run, overrides=self.overrides, inputs=list(inputs)
        ) as attempt:
            yield attempt

    def metadata(self, attempt: Attempt) -> dict[str, str]:
        """File metadata of results written under ``attempt``."""
        return file_metadata(attempt, self.config_sha256())


def file_metadata(attempt: Attempt, config_sha256: str) -> dict[str, str]:
    """What a results file says of the attempt that wrote it."""
    start: dict[str, Any] = dict(attempt.start.body or {})
    return {
        "git_commit": str((start.get("git") or {}).get("commit", "unknown")),
        "config_sha256": config_sha256,
        "ledger_entry": f"{attempt.branch}/{attempt.start.seq}",
        "registration": entry_path(attempt.registration),
        "run_seed": str(attempt.seed),
    }


def parser(description: str) -> argparse.ArgumentParser:
    """The command line that all jobs of an experiment have in common."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--experiment", required=True)
    made.add_argument("--branch", default="local")
    made.add_argument("--override", action="append", default=[], metavar="KEY=VALUE")
    made.add_argument("--out", type=Path, required=True)
    made.add_argument("--model", type=Path, default=Path("models"))
    made.add_argument("--texts", type=Path, default=Path("texts"))
    made.add_argument("--threads", type=int, default=1)
    made.add_argument("--kva", type=Path, help="file of trained key and value heads, for kva arms")
    made.add_argument("--log", type=Path)
    return made


def job_from(arguments: argparse.Namespace) -> Job:
    """The job that a command line describes."""
    return Job(
        Path.cwd(),
        arguments.experiment,
        arguments.branch,
        dict(pair.split("=", 1) for pair in arguments.override),
        arguments.out,
        arguments.model,
        arguments.texts,
        arguments.threads,
        arguments.kva,
    )


def run_job(work: Callable[[argparse.Namespace], str], command: argparse.ArgumentParser) -> int:
    """Run ``work`` on the command line; print its last word, or one sentence and an exit code on refusal."""
    arguments = command.parse_args()
    log = arguments.log
    try:
        with noting_model_time():
            said, code = work(arguments), 0
    except (RidgeFillError, LedgerError) as error:
        said, code = f"error: {error}", error.exit_code
    except OSError as error:
        said, code = _refused_by_system(error), 1
    except KeyboardInterrupt:
        said, code = "error: stopped by the user; run the same command again to carry on", 130
    except Exception as error:
        # torch's own class, by name: most jobs that end well or badly never import torch.
        if not isinstance(error, MemoryError) and type(error).__name__ != "OutOfMemoryError":
            raise
        said, code = (
            "error: out of memory; lower the lengths in the experiment's configuration or use a larger machine",
            9,
        )
    if said:
        sys.stderr.write(said + "\n")
    if log:
        # The log repeats what was said; a disk that is full must not change how the job ended.
        with suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(said + "\n", encoding="utf-8")
    return code


def _refused_by_system(error: OSError) -> str:
    return (
        f"error: {error.filename or 'a file'} could not be read or written ({error.strerror or error}); free space or "
        "fix its permissions, then run again"
    )
