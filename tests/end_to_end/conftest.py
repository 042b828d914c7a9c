"""A temporary checkout with a tiny experiment: built without a network, run once, copied for each test."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CODE = ("Snakefile", "workflow", "ridgefill", "ledger", "profiles")
LONGEST_SECONDS = 600
Done = subprocess.CompletedProcess[str]
NEVER_COPIED = shutil.ignore_patterns("__pycache__", "*.tmp", ".*")


@dataclass(frozen=True)
class Checkout:
    """A copy of the project with the tiny experiment in it. wheels: what pip finds instead of an index."""

    root: Path
    wheels: Path

    @property
    def results(self) -> Path:
        """The experiment's results folder."""
        return self.root / "results/tiny"

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start ``python ARGUMENTS`` in the checkout, one thread, no network."""
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "HF_", "PYTEST"))},
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(self.root / "no-hub-cache"),
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        # A group of its own, so that a test can end whatever the command has started.
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **options}
        return subprocess.Popen([sys.executable, *arguments], cwd=self.root, env=environment, text=True, **given)

    def python(self, *arguments: str, **options: Any) -> Done:
        """Run ``python ARGUMENTS`` to its end."""
        process = self.start(*arguments, **options)
        try:
            out, err = process.communicate(timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(arguments, process.returncode, out, err)

    def command(self, *targets: str, model: str = "model", settings: Sequence[str] = (), cores: int = 1) -> list[str]:
        """Arguments of python for a run of the workflow; ``model`` is where the hub model is said to be."""
        given = [f"model_path={model}", *settings]
        return ["-m", "snakemake", "--cores", str(cores), "--max-threads", "1", *targets, "--config", *given]

    def snakemake(self, *targets: str, **options: Any) -> Done:
        """Run the workflow for ``targets``."""
        return self.python(*self.command(*targets, **options))

    def ledger(self, *arguments: str) -> Done:
        """Run the ledger's command line."""
        return self.python("-m", "ledger", *arguments)

    def edit(self, path: str, old: str, new: str) -> None:
        """Replace text in a file of the checkout; it must be there."""
        text = (self.root / path).read_text("utf-8")
        assert old in text
        (self.root / path).write_text(text.replace(old, new), encoding="utf-8")

    def register(self) -> None:
        """Register the claim as it is now."""
        done = self.ledger("register", "workflow/claims/tiny.yaml")
        assert done.returncode == 0, done.stderr

    def entries(self) -> int:
        """How many entries the local branch has."""
        return len(list((self.root / "data/ledger/local/entries").glob("*.json")))

    def hashes(self, *folders: str) -> dict[str, str]:
        """SHA-256 of every file below the folders, by path."""
        files = (path for folder in folders for path in (self.root / folder).rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def copy(self, target: Path) -> Checkout:
        """The same checkout somewhere else, with its modification times."""
        shutil.copytree(self.root, target, symlinks=True)
        return Checkout(target, self.wheels)


def no_litter(root: Path) -> None:
    """Nothing half written is left anywhere below ``root``."""
    assert [str(path) for path in root.rglob("*.tmp")] == []


def one_sentence(done: Done, *expected: str) -> None:
    """A refusal: a non-zero exit, one ``error:`` sentence holding every pattern, and no traceback."""
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert "Traceback" not in said, said
    # The workflow prints a failed job's sentence as it happens, and again with its log.
    errors = sorted({line for line in said.splitlines() if line.startswith("error: ")})
    assert len(errors) == 1, said
    for pattern in expected:
        assert re.search(pattern, errors[0]), errors[0]


@pytest.fixture(scope="session")
def refused() -> Callable[..., None]:
    """The check that a command ended in one sentence."""
    return one_sentence


@pytest.fixture(scope="session")
def tidy() -> Callable[[Path], None]:
    """The check that nothing half written was left."""
    return no_litter


@pytest.fixture(scope="session")
def forked(fresh: Checkout) -> Iterator[Callable[..., Done]]:
    """``forked(checkout, module, arguments)``: what ``python -m`` does, without importing torch each time.

    ``file_limit``, in bytes, stands for a full disk: no file can grow beyond it.
    """
    server = fresh.start(str(Path(__file__).with_name("forks.py")), stdin=subprocess.PIPE, stderr=None)
    assert server.stdin is not None
    assert server.stdout is not None
    send, receive = server.stdin, server.stdout

    def run(checkout: Checkout, module: str, arguments: Sequence[str], file_limit: int | None = None) -> Done:
        request = {"folder": str(checkout.root), "module": module, "arguments": arguments, "file_limit": file_limit}
        send.write(json.dumps(request) + "\n")
        send.flush()
        answer = json.loads(receive.readline())
        return subprocess.CompletedProcess([module, *arguments], answer["code"], "", answer["output"])

    yield run
    send.close()
    server.wait(timeout=60)


@pytest.fixture(scope="session")
def job(forked: Callable[..., Done]) -> Callable[..., Done]:
    """``job(checkout, name, *arguments)``: run one job as the workflow does."""

    def run(checkout: Checkout, name: str, *arguments: str, file_limit: int | None = None) -> Done:
        given = ["--experiment", "tiny", "--out", "results/tiny", "--model", "model", *arguments]
        return forked(checkout, f"workflow.jobs.{name}", given, file_limit)

    return run


@pytest.fixture(scope="session")
def plan(forked: Callable[..., Done]) -> Callable[..., Done]:
    """``plan(checkout, *targets)``: run the workflow where it is expected to stop before any job."""

    def run(checkout: Checkout, *targets: str, **options: Any) -> Done:
        return forked(checkout, "snakemake", checkout.command(*targets, **options)[2:])

    return run


@pytest.fixture(scope="session")
def material() -> ModuleType:
    """What the tiny experiment is made of."""
    spec = importlib.util.spec_from_file_location("end_to_end_material", Path(__file__).with_name("material.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def fresh(tmp_path_factory: pytest.TempPathFactory, material: ModuleType) -> Checkout:
    """The checkout before its first run: code, texts, model, and the claim registered."""
    base = tmp_path_factory.mktemp("end_to_end")
    made = Checkout(base / "fresh", base / "wheels")
    made.root.mkdir()
    for name in CODE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, made.root / name, ignore=NEVER_COPIED)
        else:
            shutil.copy2(source, made.root / name)
    material.write_texts(made.root, made.wheels)
    material.write_settings(made.root)
    material.write_model(made.root / "model")
    made.register()
    return made


@pytest.fixture(scope="session")
def finished(fresh: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """The checkout after one complete run of the workflow. Tests read it and leave it as it is."""
    made = fresh.copy(tmp_path_factory.mktemp("finished") / "checkout")
    done = made.snakemake("results/tiny", cores=2)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture
def checkout(finished: Checkout, tmp_path: Path) -> Checkout:
    """A copy of the finished checkout, to be damaged."""
    return finished.copy(tmp_path / "checkout")
